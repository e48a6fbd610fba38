"""LiteLLM's proxy server, as documented: every key a deployment of one model group, clients retry what it refuses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from work import Plan, run

_START_SECONDS = 300.0
_STARTS = 3
_TOKEN = "sk-bench-proxy"


def _config(plan: Plan) -> dict[str, object]:
    """JSON is YAML as well, which is what it reads."""
    deployments = [
        {
            "model_name": "bench",
            "litellm_params": {
                "model": f"gemini/{plan.model}",
                "api_base": f"{plan.base_url}/v1beta",
                "api_key": secret,
                "rpm": plan.requests_per_minute,
            },
        }
        for secret in plan.secrets
    ]
    return {"model_list": deployments, "general_settings": {"master_key": _TOKEN}}


@contextmanager
def _proxy(plan: Plan) -> Iterator[str]:
    """Its address, once it serves."""
    config = Path(sys.argv[1]).with_name("proxy.yaml")
    config.write_text(json.dumps(_config(plan)))
    for _ in range(_STARTS):
        process, address = _start(config)
        try:
            if _comes_up(address, process):
                yield address
                return
        finally:
            process.terminate()
            process.wait()
    raise RuntimeError("the proxy does not serve")


def _start(config: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(config), "--port", str(port)]
    # Its price list would come over the network.
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True"}
    process = subprocess.Popen([*command, "--host", "127.0.0.1"], env=environment, stdout=subprocess.DEVNULL)
    return process, f"http://127.0.0.1:{port}"


def _comes_up(address: str, process: subprocess.Popen[bytes]) -> bool:
    """Somebody else may have taken its port: then it ends by itself."""
    ends_at = time.monotonic() + _START_SECONDS
    while time.monotonic() < ends_at and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health/liveliness", timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return process.poll() is None
    return False


def _call(address: str, prompt: str) -> object:
    body = {"model": "bench", "messages": [{"role": "user", "content": prompt}]}
    headers = {"content-type": "application/json", "authorization": f"Bearer {_TOKEN}"}
    request = urllib.request.Request(f"{address}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(f"{error.code}: {error.read()[:300]!r}") from None


if __name__ == "__main__":
    _plan = Plan.from_command_line()
    with _proxy(_plan) as _address:
        run(_plan, lambda prompt: _call(_address, prompt))
