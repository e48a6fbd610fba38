"""What a cluster costs: the same items on this machine, on three nodes of a Ray cluster, and as bare Ray tasks.

All nodes are on this machine: what is measured is what AgentOS and Ray add, not a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from agentos.testing.provider_server import Key, ProviderServer
from benchmarks.harness import (
    AGENTOS,
    EMPTY_GRAPH,
    SLEEPING_GRAPH,
    last_records,
    scratch,
    timed,
    verdict,
    write_items,
)
from fakes.ray_cluster import RayCluster, has_ray

_NODES = 3
_PLACES = 10
"""Of each node."""
_ITEMS = 120
_PARALLEL = 6
_ITEM_SECONDS = 2.0
_OUTPUT_MEGABYTES = 10
_CALLS = 40

_TALKING_GRAPH = f"""
import os, time
from pathlib import Path
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    n: int

LINE = "x" * 99

def meet(state):
    Path("met", os.environ["AGENTOS_ITEM_ID"]).touch()
    while len(os.listdir("met")) < {_PARALLEL}:
        time.sleep(0.01)
    return {{}}

def talk(state):
    for _ in range({_OUTPUT_MEGABYTES} * 10_000):
        print(LINE)
    return {{}}

graph = StateGraph(State)
graph.add_node("meet", meet)
graph.add_node("talk", talk)
graph.add_edge(START, "meet")
graph.add_edge("meet", "talk")
graph.add_edge("talk", END)
"""

_CALLING_GRAPH = f"""
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos.llm import generate

class State(TypedDict, total=False):
    n: int

def call(state):
    for number in range({_CALLS}):
        generate(str(number), model="google:gemini-2.5-flash")
    return {{}}

graph = StateGraph(State)
graph.add_node("call", call)
graph.add_edge(START, "call")
graph.add_edge("call", END)
"""

_BARE_TASKS = f"""
import time, ray
from flow import graph
ray.init(log_to_driver=False, logging_level="ERROR", configure_logging=False)

@ray.remote
def one(number):
    from flow import graph
    graph.compile().invoke({{"n": number}})

ray.get([one.remote(number) for number in range(2 * {_PARALLEL})])
began = time.monotonic()
left, under_way = list(range({_ITEMS})), []
while left or under_way:
    while left and len(under_way) < {_PARALLEL}:
        under_way.append(one.remote(left.pop()))
    _, under_way = ray.wait(under_way)
print(time.monotonic() - began)
"""


def main() -> None:
    if not has_ray():
        print("skipped: needs Ray: pip install '.[cluster]'")
        return
    with _cluster() as cluster:
        _overhead(cluster)
        _makespan(cluster)
        _output(cluster)
        _calls(cluster)


@contextmanager
def _cluster() -> Iterator[RayCluster]:
    cluster = RayCluster(cpus=_PLACES)
    before = dict(os.environ)
    os.environ.update(cluster.environment)
    try:
        for number in range(2, _NODES + 1):
            cluster.join(f"node-{number}", _PLACES)
        yield cluster
    finally:
        os.environ.clear()
        os.environ.update(before)
        cluster.close()


def _overhead(cluster: RayCluster) -> None:
    with scratch() as directory:
        write_items(directory / "items.jsonl", _ITEMS)
        (directory / "flow.py").write_text(EMPTY_GRAPH)
        local, ray = (_span(directory, _PARALLEL, address) / _ITEMS for address in ("", cluster.address))
        bare = _bare_seconds(directory, cluster) / _ITEMS
    print(f"   an item: local {local * 1000:.1f} ms, Ray {ray * 1000:.1f}, bare task {bare * 1000:.1f}")
    verdict("an item on the cluster over one on this machine", ray / local, 2.0, "x")


def _bare_seconds(directory: Path, cluster: RayCluster) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _BARE_TASKS],
        cwd=directory,
        env={**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def _makespan(cluster: RayCluster) -> None:
    places = _NODES * _PLACES
    with scratch() as directory:
        write_items(directory / "items.jsonl", _ITEMS, seconds=_ITEM_SECONDS)
        (directory / "flow.py").write_text(SLEEPING_GRAPH)
        span = _span(directory, places, cluster.address)
    ideal = _ITEMS * _ITEM_SECONDS / places
    print(f"   {_ITEMS} items of {_ITEM_SECONDS:g} s on {_NODES} nodes: {span:.1f} s, ideal {ideal:.1f} s")
    verdict("makespan over ideal", span / ideal, 1.25, "x")


def _output(cluster: RayCluster) -> None:
    with scratch() as directory:
        write_items(directory / "items.jsonl", _PARALLEL)
        (directory / "flow.py").write_text(_TALKING_GRAPH)
        local, ray = (_megabytes_per_second(directory, address) for address in ("", cluster.address))
    print(f"   output: local {local:.1f} MB/s, Ray {ray:.1f} MB/s")
    verdict("output on the cluster over that of this machine", ray / local, 0.3, "x", at_least=True)


def _megabytes_per_second(directory: Path, address: str) -> float:
    """Once all of them run: how long nodes take to load the graph is no matter of output."""
    met = directory / "met"
    shutil.rmtree(met, ignore_errors=True)
    met.mkdir()
    return _PARALLEL * _OUTPUT_MEGABYTES / _span(directory, _PARALLEL, address, since_node="talk")


def _calls(cluster: RayCluster) -> None:
    keys = [Key(name=f"k{number}", secret=f"AIza{'x' * 30}{number}", group=f"g{number}") for number in range(4)]
    with scratch() as directory, ProviderServer(keys=keys) as server:
        home = directory / "home"
        home.mkdir(mode=0o700)
        path = home / "credentials.toml"
        path.write_text(
            "".join(
                f'[[key]]\nname = "{key.name}"\nprovider = "google"\ngroup = "{key.group}"\n'
                f'max_concurrent = 4\nsecret = "{key.secret}"\n'
                for key in keys
            )
        )
        path.chmod(0o600)
        (directory / "agentos.toml").write_text(f'[providers.google]\nbase_url = "{server.base_url("google")}"\n')
        write_items(directory / "items.jsonl", _PARALLEL)
        (directory / "flow.py").write_text(_CALLING_GRAPH)
        count = _PARALLEL * _CALLS
        local, ray = (count / _span(directory, _PARALLEL, address) for address in ("", cluster.address))
    print(f"   leased calls: local {local:.0f}/s, Ray {ray:.0f}/s")
    verdict("leased calls on the cluster over those of this machine", ray / local, 0.5, "x", at_least=True)


def _span(directory: Path, parallel: int, address: str, since_node: str = "") -> float:
    """Seconds from the first item's start, or its start of this node of the graph, to the last one's end."""
    where = ["--backend", "ray", "--address", address] if address else []
    command = [AGENTOS, "run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--fresh"]
    timed([*command, "--parallel", str(parallel), *where], directory)
    records = last_records(directory / "home")
    began = min(
        _seconds(record)
        for record in records
        if (record.get("node") == since_node if since_node else record["type"] == "item_started")
    )
    return max(_seconds(record) for record in records if record["type"] == "item_ended") - began


def _seconds(record: dict[str, str]) -> float:
    return datetime.fromisoformat(record["time"]).timestamp()
