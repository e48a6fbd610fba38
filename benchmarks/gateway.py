"""What the gateway adds to a call, and how soon a run's first call leaves."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentos.providers.provider import base_url_variable
from benchmarks.harness import AGENTOS, scratch, verdict, write_items
from fakes.provider_server import ProviderServer

CALLS = 400
BODY = json.dumps({"model": "gpt-5.1", "messages": [{"role": "user", "content": "hello"}]})
CALLING_GRAPH = """
from typing import TypedDict
import openai
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    seconds: float

def ask(state):
    openai.OpenAI().chat.completions.create(model="gpt-5.1", messages=[{"role": "user", "content": "hello"}])
    return {}

graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_edge(START, "ask")
graph.add_edge("ask", END)
"""


def main() -> None:
    with scratch() as directory:
        _added_latency()
        _first_call(directory)


def _added_latency() -> None:
    with _provider_process() as port, _gateway_process(port) as (gateway_port, token, pid):
        direct, through = _connection(port), _connection(gateway_port)
        for connection in (direct, through):
            _call(connection, token)
        cpu_before = _cpu_seconds(pid)
        # In turn, so that both meet the same machine.
        times = [(_call(direct, token), _call(through, token)) for _ in range(CALLS)]
        cpu = (_cpu_seconds(pid) - cpu_before) / CALLS
    added = statistics.median(later for _, later in times) - statistics.median(first for first, _ in times)
    print(f"   {CALLS} calls: {statistics.median(first for first, _ in times) * 1000:.2f} ms direct (p50)")
    verdict("added by the gateway at p50", added * 1000, 2, " ms")
    print(f"   {cpu * 1000:.2f} ms of CPU in the gateway for each call")


def _first_call(directory: Path) -> None:
    (directory / "calling.py").write_text(CALLING_GRAPH)
    write_items(directory / "items.jsonl", 1)
    with ProviderServer() as server:
        environment = {**os.environ, **_environment(server.port)}
        command = [str(AGENTOS), "run", "--graph", "calling.py:graph", "--items", "items.jsonl"]
        began = time.monotonic()
        run = subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL)
        while not server.requests and run.poll() is None:
            time.sleep(0.002)
        seconds = time.monotonic() - began
        code = run.wait()
    if code:
        raise RuntimeError(f"agentos run exited with {code}")
    verdict("first call after the command, through the gateway of the run", seconds, 1.5, " s")


def _environment(port: int) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-bench-not-a-key", base_url_variable("openai"): f"http://127.0.0.1:{port}/v1"}


@contextmanager
def _provider_process() -> Iterator[int]:
    command = [sys.executable, "-m", "fakes.provider_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.terminate()


@contextmanager
def _gateway_process(port: int) -> Iterator[tuple[int, str, int]]:
    environment = {**os.environ, **_environment(port)}
    command = [str(AGENTOS), "gateway", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield int(told["address"].rpartition(":")[2]), told["clients"][0]["token"], process.pid
        process.terminate()


def _connection(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=30)


def _call(connection: http.client.HTTPConnection, token: str) -> float:
    began = time.perf_counter()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", BODY, headers)
    reply = connection.getresponse()
    reply.read()
    if reply.status != 200:
        raise RuntimeError(f"status {reply.status}")
    return time.perf_counter() - began


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
