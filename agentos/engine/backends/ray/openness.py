"""Whether a cluster takes anybody: asked by a process that has no token. Prints `open` or `closed`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping

_SECONDS = 30.0


def is_open(address: str, environ: Mapping[str, str]) -> bool:
    """In a process of its own: Ray reads its way of authentication once."""
    bare = {name: value for name, value in environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-P", "-m", "agentos.engine.backends.ray.openness", address]
    try:
        said = subprocess.run(
            command,
            env={**bare, "RAY_AUTH_MODE": "disabled"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return said.stdout.strip() == b"open"


def main(arguments: list[str]) -> None:
    try:
        importlib.import_module("ray._raylet").GcsClient(address=arguments[0]).internal_kv_keys(
            b"agentos", None, timeout=5
        )
        sys.stdout.write("open\n")
    except Exception:
        sys.stdout.write("closed\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
