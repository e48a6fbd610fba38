"""A cluster of machines that share no disk: the project travels, and whatever dies, its items go on elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gates import CALLER, Gate
from harness import Sandbox, Started, eventually, no_process_left, of_type
from machines import HOST_ADDRESS, Forwarder, Machine, machines
from providers import PoolKey, provider

from fakes.postgres import PASSWORD, PostgresServer
from fakes.ray_cluster import RayCluster

pytestmark = [pytest.mark.needs_ray, pytest.mark.needs_postgres, pytest.mark.needs_machines, pytest.mark.timeout(900)]

FLOW = f"""
import os, pathlib, subprocess, sys
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos import outputs
{CALLER}
class State(TypedDict, total=False):
    gate: str
    writes: str
    branch: str
    said: str
    asks: bool

CLIENT = None
if "OPENAI_API_KEY" in os.environ:
    from openai import OpenAI
    CLIENT = OpenAI()

def one(state):
    print("one runs in", pathlib.Path.cwd().name)
    return {{"said": pathlib.Path("uncommitted.txt").read_text()}}

def two(state):
    item = os.environ["AGENTOS_ITEM_ID"]
    if state.get("gate"):
        pass_gate(state["gate"], item, "two")
    if state.get("writes"):
        outputs.write(pathlib.Path(state["writes"]), f"{{item}} says {{state['said']}}")
    if state.get("branch"):
        made = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "HEAD^{{tree}}", "-m", item]
        commit = subprocess.run([*made, "-p", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["git", "branch", state["branch"], commit], check=True)
    if state.get("asks"):
        from agentos.llm import generate
        print("google said", generate(f"{{item}} asks", model="google:gemini-2.5-flash").text)
        message = {{"role": "user", "content": f"{{item}} asks as a client"}}
        # As most graphs have it: made when the graph is loaded.
        stream = CLIENT.chat.completions.create(model="gpt-5-mini", messages=[message], stream=True)
        said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        print("openai said", len(said) > 0)
    return {{}}

graph = StateGraph(State)
graph.add_node("one", one)
graph.add_node("two", two)
graph.add_edge(START, "one")
graph.add_edge("one", "two")
graph.add_edge("two", END)
"""

ASKING_EARLY = """
EARLY = CLIENT.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "before all items"}])
CLIENT.close()
"""


@dataclass
class Town:
    """Three nodes, of which one is this machine, and a database that all reach."""

    cluster: RayCluster
    machines: list[Machine]
    database_url: str
    way_to_database: Forwarder

    def ours(self, machine: Machine) -> list[str]:
        """What of a run is alive on a machine."""
        return [line for line in machine.commands() if "agentos.engine.backends" in line]


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    with PostgresServer() as server, machines(2, head_cpus=1, further={"PGPASSWORD": PASSWORD}) as (cluster, made):
        parts = urlsplit(server.url)
        forwarder = Forwarder(int(parts.port or 0))
        url = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{HOST_ADDRESS}:{forwarder.port}").geturl()
        yield Town(cluster, made, url, forwarder)
        forwarder.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate(HOST_ADDRESS)
    yield made
    made.close()


@pytest.fixture
def project(town: Town, sandbox: Sandbox) -> Sandbox:
    """A repository with something that no commit has."""
    sandbox.environment.update(town.cluster.environment)
    sandbox.environment |= {
        "AGENTOS_CHECKPOINTS__URL": town.database_url,
        "AGENTOS_CHECKPOINTS__PROJECT": f"p{os.getpid()}-{sandbox.root.name[-40:]}",
        "AGENTOS_CLUSTER__BACKEND": "ray",
        "AGENTOS_CLUSTER__ADDRESS": town.cluster.address,
    }
    (sandbox.project / "flow.py").write_text(FLOW)
    git(sandbox, "init", "-q", "-b", "main")
    git(sandbox, "add", ".")
    git(sandbox, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "all")
    (sandbox.project / "uncommitted.txt").write_text("hello")
    return sandbox


def git(sandbox: Sandbox, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=sandbox.project, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def start(project: Sandbox, count: int, **inputs: Callable[[str], str]) -> Started:
    ids = [f"i{number}" for number in range(1, count + 1)]
    project.write_items(*({"id": i, "input": {name: make(i) for name, make in inputs.items()}} for i in ids))
    return project.start("--parallel", str(count), graph="flow.py:graph")


def where(project: Sandbox) -> dict[str, str]:
    """The node each item was last started on."""
    return {record["item"]: record["cluster_node"] for record in of_type(project.records(), "item_started")}


def at_the_gate(gate: Gate, count: int) -> None:
    eventually(lambda: len({line.split()[0] for line in gate.arrived}) >= count, f"{count} items at the gate")


def test_the_project_travels_and_documents_and_branches_come_back(town: Town, project: Sandbox, gate: Gate) -> None:
    started = start(
        project,
        5,
        gate=lambda _: gate.address,
        writes=lambda item: f"docs/{item}.md",
        branch=lambda item: f"made/{item}",
    )
    at_the_gate(gate, 5)
    gate.open()
    finished = started.wait()
    assert finished.code == 0, finished.stdout
    assert set(where(project).values()) == {"node-1", "node-2", "node-3"}
    for number in range(1, 6):
        assert (project.project / "docs" / f"i{number}.md").read_text() == f"i{number} says hello"
        assert git(project, "log", "-1", "--format=%s", f"made/i{number}") == f"i{number}"
    assert git(project, "status", "--porcelain").split() == ["??", "docs/", "??", "uncommitted.txt"]
    for machine in town.machines:
        assert not town.ours(machine)


def test_workers_on_other_machines_call_models_without_getting_a_key(
    town: Town, project: Sandbox, gate: Gate
) -> None:
    keys = [PoolKey(name="g", max_concurrent=5), PoolKey(name="o", provider="openai", max_concurrent=5)]
    with provider(project, *keys) as server:
        started = start(project, 5, gate=lambda _: gate.address, asks=lambda _: "yes")
        at_the_gate(gate, 5)
        for machine in town.machines:
            for pid in machine.processes():
                assert not any(key.secret in whole_environment(pid) for key in keys)
        gate.open()
        finished = started.wait()
        calls = server.stats()["total"]
    assert finished.code == 0, finished.stdout
    assert set(where(project).values()) == {"node-1", "node-2", "node-3"}
    assert calls == 10
    assert finished.stdout.count("google said") == finished.stdout.count("openai said True") == 5
    assert not any(key.secret in finished.stdout for key in keys)


def test_a_graph_may_call_models_while_it_is_loaded_on_other_machines(
    town: Town, project: Sandbox, gate: Gate
) -> None:
    (project.project / "flow.py").write_text(f"{FLOW}\n{ASKING_EARLY}")
    key = PoolKey(name="o", provider="openai", max_concurrent=5)
    with provider(project, key) as server:
        started = start(project, 5, gate=lambda _: gate.address)
        at_the_gate(gate, 5)
        gate.open()
        finished = started.wait()
        calls = server.stats()["total"]
    assert finished.code == 0, finished.stdout
    assert set(where(project).values()) == {"node-1", "node-2", "node-3"}
    assert calls == 3
    assert finished.stdout.count("loading the graph called models: ") == 3
    assert key.secret not in finished.stdout


def test_items_of_a_machine_that_dies_go_on_elsewhere_from_their_checkpoint(
    town: Town, project: Sandbox, gate: Gate
) -> None:
    started = start(project, 5, gate=lambda _: gate.address)
    at_the_gate(gate, 5)
    victim = town.machines[1]
    on_victim = {item for item, name in where(project).items() if name == victim.name}
    assert on_victim
    before = len(gate.arrived)
    victim.cut()
    try:
        # Nobody can tell it: it finds out by itself, and before its items may begin elsewhere.
        eventually(lambda: f"{victim.name} is lost" in started.stdout(), "its loss")
        assert not town.ours(victim)
        gate.open()
        finished = started.wait()
    finally:
        victim.heal()
    assert finished.code == 0, finished.stdout
    again = {line.split()[0] for line in gate.arrived[before:]}
    assert again == on_victim
    resumed = [r for r in of_type(project.records(), "item_started") if r["resumed_after"]]
    assert {record["item"] for record in resumed} == on_victim
    assert {record["resumed_after"] for record in resumed} == {"one"}
    assert all(record["cluster_node"] != victim.name for record in resumed)
    assert set(project.outcomes().values()) == {"completed"}


def test_a_machine_that_cannot_reach_the_database_is_used_no_more(town: Town, project: Sandbox, gate: Gate) -> None:
    project.environment["AGENTOS_CHECKPOINTS__PATIENCE_SECONDS"] = "3"
    started = start(project, 5, gate=lambda _: gate.address)
    at_the_gate(gate, 5)
    victim = town.machines[0]
    on_victim = {item for item, name in where(project).items() if name == victim.name}
    assert on_victim
    town.way_to_database.refuse(victim.address)
    try:
        gate.open()
        finished = started.wait()
    finally:
        town.way_to_database.let_in_again(victim.address)
    assert finished.code == 0, finished.stdout
    assert f"{victim.name} is not used any more: PostgreSQL at" in finished.stdout
    resumed = {r["item"]: r["cluster_node"] for r in of_type(project.records(), "item_started") if r["resumed_after"]}
    assert resumed.keys() == on_victim
    assert victim.name not in resumed.values()


def test_a_supervisor_that_is_killed_loses_its_items_to_others(town: Town, project: Sandbox, gate: Gate) -> None:
    started = start(project, 4, gate=lambda _: gate.address)
    at_the_gate(gate, 4)
    machine = next(each for each in town.machines if town.ours(each))
    on_machine = {item for item, name in where(project).items() if name == machine.name}
    for pid in machine.processes():
        if "Supervisor" in command_line(pid):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: f"{machine.name} is lost" in started.stdout(), "its loss")
    gate.open()
    assert started.wait().code == 0
    assert {r["item"] for r in of_type(project.records(), "item_started") if r["resumed_after"]} == on_machine


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_nothing_is_left_on_any_machine_when_the_coordinator_ends(
    town: Town, project: Sandbox, gate: Gate, number: signal.Signals
) -> None:
    started = start(project, 5, gate=lambda _: gate.address)
    at_the_gate(gate, 5)
    started.kill(number)
    started.process.wait()
    for machine in town.machines:
        eventually(lambda machine=machine: not town.ours(machine), f"the end of all on {machine.name}", 15)  # type: ignore[misc]
    no_process_left(project.home)
    gate.open()
    again = project.start("--parallel", "5", graph="flow.py:graph")
    assert again.wait().code == 0
    assert "resuming after one" in again.stdout()


def whole_environment(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    return ""


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
