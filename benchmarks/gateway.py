"""What the gateway adds to a call, how soon a run's first call leaves, and what calls of later items consume."""

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
from agentos.testing.provider_server import ProviderServer
from benchmarks.harness import AGENTOS, scratch, timed, verdict, write_items

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

GENERATING_GRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos.llm import generate

class State(TypedDict, total=False):
    calls: int

def ask(state):
    for _ in range(state["calls"]):
        generate("hello", model="openai:gpt-5.1")
    return {}

graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_edge(START, "ask")
graph.add_edge("ask", END)
"""
LATER_ITEMS = 30


def main() -> None:
    with scratch() as directory:
        _added_latency()
        _first_call(directory)
        _later_calls(directory)


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


def _later_calls(directory: Path) -> None:
    """One call in each item against none, in a run whose first item has paid for what all need."""
    (directory / "generating.py").write_text(GENERATING_GRAPH)
    with _provider_process() as port:
        environment = {**os.environ, **_environment(port)}

        def cpu_seconds(items: int, calls: int) -> float:
            write_items(directory / "items.jsonl", items, calls=calls)
            command = [AGENTOS, "run", "--graph", "generating.py:graph", "--items", "items.jsonl", "--fresh"]
            return min(timed(command, directory, environment=environment).cpu_seconds for _ in range(3))

        spent = {calls: cpu_seconds(1 + LATER_ITEMS, calls) - cpu_seconds(1, calls) for calls in (0, 1)}
    verdict("CPU of a call in the second and later items", 1000 * (spent[1] - spent[0]) / LATER_ITEMS, 30, " ms")


def _environment(port: int) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-bench-not-a-key", base_url_variable("openai"): f"http://127.0.0.1:{port}/v1"}


@contextmanager
def _provider_process() -> Iterator[int]:
    command = [sys.executable, "-m", "agentos.testing"]
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
