"""Runs on a Ray cluster of one machine, through the installed command: what a user sees of it, and what may die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gates import CALLER, Gate
from harness import Sandbox, children_of, eventually, no_process_left, of_type, processes_with
from providers import PoolKey, provider

from agentos.engine.backends.ray.messages import BRIDGE_CHANNEL, Join, frame, to_bridge
from agentos.processes import host
from fakes.ray_cluster import RayCluster, certificates

pytestmark = [pytest.mark.needs_ray, pytest.mark.timeout(600)]

FLOW = f"""
import os
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
{CALLER}
class State(TypedDict, total=False):
    gate: str

def one(state):
    print("one says", os.environ["AGENTOS_ITEM_ID"])
    return {{}}

def two(state):
    if state.get("gate"):
        pass_gate(state["gate"], os.environ["AGENTOS_ITEM_ID"], str(os.getpid()))
    return {{}}

graph = StateGraph(State)
graph.add_node("one", one)
graph.add_node("two", two)
graph.add_edge(START, "one")
graph.add_edge("one", "two")
graph.add_edge("two", END)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    made = RayCluster(cpus=16)
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate("127.0.0.1")
    yield made
    made.close()


def on(cluster: RayCluster, sandbox: Sandbox) -> list[str]:
    sandbox.environment.update(cluster.environment)
    (sandbox.project / "flow.py").write_text(FLOW)
    return ["--backend", "ray", "--address", cluster.address]


def write_items(sandbox: Sandbox, count: int, **inputs: str) -> None:
    sandbox.write_items(*({"id": f"i{number}", "input": inputs} for number in range(1, count + 1)))


def test_more_than_ten_run_at_once_and_each_line_can_name_its_node(
    cluster: RayCluster, sandbox: Sandbox, gate: Gate
) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 12, gate=gate.address)
    started = sandbox.start("--parallel", "12", "--show-node", *options, graph="flow.py:graph")
    eventually(lambda: len(gate.arrived) == 12, "all at once")
    gate.open()
    finished = started.wait()
    assert finished.code == 0, finished.stdout
    assert "[i7@node-1] one says i7" in finished.lines
    assert {record["cluster_node"] for record in of_type(sandbox.records(), "item_started")} == {"node-1"}


def test_a_worker_that_is_killed_is_tried_again_from_its_checkpoint(
    cluster: RayCluster, sandbox: Sandbox, gate: Gate
) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 1, gate=gate.address)
    started = sandbox.start("--retry", "1", *options, graph="flow.py:graph")
    eventually(lambda: gate.arrived, "the second node")
    os.kill(int(gate.arrived[0].split()[1]), signal.SIGKILL)
    eventually(lambda: len(gate.arrived) == 2, "the second attempt")
    gate.open()
    assert started.wait().code == 0
    assert "[i1] resuming after one" in started.stdout()


LOADED_AND_KILLED = """
import os, signal, time
from pathlib import Path
def is_first(name):
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
if not is_first("loaded") and is_first("killed"):
    while not Path("begun").exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_node_whose_process_is_killed_while_it_loads_the_graph_loads_it_again(sandbox: Sandbox, gate: Gate) -> None:
    two = RayCluster(cpus=1)
    try:
        two.join("node-2", cpus=1)
        options = on(two, sandbox)
        begin = 'def one(state):\n    Path("begun").touch()'
        (sandbox.project / "flow.py").write_text(LOADED_AND_KILLED + FLOW.replace("def one(state):", begin))
        write_items(sandbox, 2, gate=gate.address)
        started = sandbox.start("--parallel", "2", *options, graph="flow.py:graph")
        eventually(lambda: len({line.split()[0] for line in gate.arrived}) == 2, "an item on each node")
        gate.open()
        finished = started.wait()
    finally:
        two.close()
    assert finished.code == 0, finished.stdout
    assert "the process that loads the graph was killed; starting another" in finished.stdout
    assert {record["cluster_node"] for record in of_type(sandbox.records(), "item_started")} == {"node-1", "node-2"}


def test_a_node_whose_fork_server_is_killed_leaves_the_other_node_of_the_machine_alone(
    sandbox: Sandbox, gate: Gate
) -> None:
    two = RayCluster(cpus=1)
    try:
        two.join("node-2", cpus=1)
        options = on(two, sandbox)
        write_items(sandbox, 2, gate=gate.address)
        started = sandbox.start("--parallel", "2", *options, graph="flow.py:graph")
        eventually(lambda: len({line.split()[0] for line in gate.arrived}) == 2, "an item on each node")
        victim, worker = gate.arrived[0].split()
        os.kill(host.parent_of(int(worker)) or 0, signal.SIGKILL)
        eventually(lambda: len(gate.arrived) > 2, "its item again")
        gate.open()
        finished = started.wait()
    finally:
        two.close()
    assert finished.code == 0, finished.stdout
    assert finished.stdout.count("the fork server was killed; starting another") == 1
    assert {r["item"] for r in of_type(sandbox.records(), "item_started") if r["resumed_after"]} == {victim}


ASKING_EARLY = """
import json, os, urllib.request
body = json.dumps({"model": "gpt-5-mini", "messages": [{"role": "user", "content": "before all items"}]}).encode()
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
with urllib.request.urlopen(asked):
    pass
"""


def test_a_graph_may_call_models_while_it_is_loaded(cluster: RayCluster, sandbox: Sandbox) -> None:
    options = on(cluster, sandbox)
    (sandbox.project / "flow.py").write_text(ASKING_EARLY + FLOW)
    write_items(sandbox, 2)
    with provider(sandbox, PoolKey(name="o", provider="openai")) as server:
        done = sandbox.run("--parallel", "2", *options, graph="flow.py:graph")
        calls = server.stats()["total"]
    assert done.code == 0, done.stderr
    assert calls == 1
    assert "loading the graph called models: " in done.stdout


def test_what_is_full_is_waited_for_and_said(cluster: RayCluster, sandbox: Sandbox, gate: Gate) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 16, gate=gate.address)
    first = sandbox.start("--parallel", "16", *options, graph="flow.py:graph")
    eventually(lambda: len(gate.arrived) == 16, "the first run")
    sandbox.write_items({"id": "late", "input": {}}, name="late.jsonl")
    second = sandbox.start(*options, graph="flow.py:graph", items="late.jsonl")
    second.wait_for_line("waiting for resources on node-1")
    gate.open()
    assert first.wait().code == 0
    assert second.wait().code == 0


@pytest.mark.parametrize("with_its_node", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_head_that_is_lost_stops_the_run_gracefully_and_it_resumes(
    sandbox: Sandbox, gate: Gate, *, with_its_node: bool
) -> None:
    lost = RayCluster(cpus=4)
    try:
        options = on(lost, sandbox)
        write_items(sandbox, 3, gate=gate.address)
        started = sandbox.start("--parallel", "3", *options, graph="flow.py:graph")
        eventually(lambda: len(gate.arrived) == 3, "all at the gate")
        if with_its_node:
            lost.close()
        else:
            lost.lose_head()
        finished = started.wait()
    finally:
        lost.close()
    assert finished.code == 1, finished.stdout
    assert "FAULT" in finished.stdout
    assert "3 items left: i1, i2, i3" in finished.stdout
    no_process_left(sandbox.home)
    gate.open()
    resumed = sandbox.run("--parallel", "3", graph="flow.py:graph")
    assert resumed.code == 0
    assert resumed.stdout.count("resuming after one") == 3


def test_the_bridge_may_die_and_items_go_on(cluster: RayCluster, sandbox: Sandbox, gate: Gate) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 2, gate=gate.address)
    started = sandbox.start("--parallel", "2", *options, graph="flow.py:graph")
    eventually(lambda: len(gate.arrived) == 2, "all at the gate")
    [bridge] = [pid for pid in children_of(started.pid) if b"ray.bridge" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(bridge, signal.SIGKILL)
    eventually(lambda: len(gate.arrived) == 4, "both again")
    gate.open()
    assert started.wait().code == 0
    assert started.stdout().count("resuming after one") == 2


def test_a_cluster_that_takes_anybody_is_refused(sandbox: Sandbox) -> None:
    opened = RayCluster(cpus=1, further={"RAY_AUTH_MODE": "disabled"})
    try:
        options = on(opened, sandbox)
        sandbox.environment["RAY_AUTH_MODE"] = "token"
        write_items(sandbox, 1)
        refused = sandbox.run(*options, graph="flow.py:graph")
        checked = sandbox.command("cluster", "check", "--address", opened.address)
    finally:
        opened.close()
    assert refused.code == 2
    assert "lets anybody in" in refused.stderr
    assert checked.code == 1
    assert "lets anybody in" in checked.stdout


def test_a_good_cluster_passes_its_check(cluster: RayCluster, sandbox: Sandbox) -> None:
    on(cluster, sandbox)
    checked = sandbox.command("cluster", "check", "--address", cluster.address)
    assert checked.code == 0, checked.stdout
    assert f"ok       open port: {cluster.address} asks for a token" in checked.lines
    assert checked.lines[-1] == "The cluster can be used."


def test_who_has_no_token_or_a_wrong_one_hears_what_to_do(cluster: RayCluster, sandbox: Sandbox) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 1)
    wrong = {"RAY_AUTH_TOKEN": "0" * 64}
    refused = sandbox.run(*options, graph="flow.py:graph", env=wrong)
    checked = sandbox.command("cluster", "check", "--address", cluster.address, env=wrong)
    del sandbox.environment["RAY_AUTH_TOKEN"]
    without = sandbox.run(*options, graph="flow.py:graph", env={"HOME": str(sandbox.root)})
    for said in (refused.stderr, checked.stdout):
        assert "is RAY_AUTH_TOKEN the cluster's?" in said
    assert "Copy ~/.ray/auth_token from its head, or set RAY_AUTH_TOKEN" in without.stderr


@pytest.mark.slow
def test_ray_makes_our_environment_on_a_node_with_the_agentos_of_this_machine(
    cluster: RayCluster, sandbox: Sandbox
) -> None:
    options = on(cluster, sandbox)
    (sandbox.project / "flow.py").write_text(
        FLOW.replace("import os\n", "import os, sys, agentos\nprint('made', sys.prefix, agentos.__file__)\n", 1)
    )
    write_items(sandbox, 1)
    made = sandbox.run(*options, graph="flow.py:graph", env={"AGENTOS_CLUSTER__ENV": "make"})
    checked = sandbox.command("cluster", "check", "--address", cluster.address, env={"AGENTOS_CLUSTER__ENV": "make"})
    assert made.code == 0, made.stdout
    prefix, agentos_file = next(line for line in made.lines if "made " in line).partition("made ")[2].split()
    assert "runtime_resources" in prefix
    assert agentos_file.startswith(prefix)
    assert checked.lines[-1] == "The cluster can be used."


def test_a_run_ends_when_the_environment_can_be_made_on_no_node(sandbox: Sandbox) -> None:
    broken = sandbox.root / "broken"
    broken.mkdir()
    (broken / "virtualenv.py").write_text("raise ImportError")
    bare = RayCluster(cpus=1, further={"PYTHONPATH": str(broken)})
    try:
        options = on(bare, sandbox)
        sandbox.environment |= {"AGENTOS_CLUSTER__ENV": "make"}
        write_items(sandbox, 1)
        refused = sandbox.run(*options, graph="flow.py:graph")
        checked = sandbox.command("cluster", "check", "--address", bare.address)
    finally:
        bare.close()
    assert refused.code == 2, refused.stderr
    assert "Ray could not make its Python environment" in refused.stderr
    assert "virtualenv" in refused.stderr
    assert checked.code == 1
    assert "Ray could not make its Python environment" in checked.stdout


def test_a_node_may_take_longer_to_start_than_it_may_be_silent_afterwards(sandbox: Sandbox) -> None:
    slowing = sandbox.root / "slowing"
    slowing.mkdir()
    (slowing / "sitecustomize.py").write_text(
        "import sys, time\nif 'agentos.engine.backends.ray.node' in sys.orig_argv:\n    time.sleep(9)\n"
    )
    slow = RayCluster(cpus=1, further={"PYTHONPATH": str(slowing)})
    try:
        options = on(slow, sandbox)
        del sandbox.environment["PYTHONPATH"]
        write_items(sandbox, 1)
        done = sandbox.run(*options, graph="flow.py:graph", seconds=120)
    finally:
        slow.close()
    assert done.code == 0, done.stdout
    assert "is lost" not in done.stdout


def test_a_run_ends_when_agentos_is_on_no_node(sandbox: Sandbox) -> None:
    hidden = sandbox.root / "hidden"
    (hidden / "agentos").mkdir(parents=True)
    (hidden / "agentos" / "__init__.py").write_text("raise ImportError('no AgentOS here')")
    bare = RayCluster(cpus=1, further={"PYTHONPATH": str(hidden)})
    try:
        options = on(bare, sandbox)
        del sandbox.environment["PYTHONPATH"]
        write_items(sandbox, 1)
        refused = sandbox.run(*options, graph="flow.py:graph")
    finally:
        bare.close()
    assert refused.code == 2, refused.stderr
    assert "node-1 cannot be used" in refused.stderr


def test_workers_do_not_see_the_cluster_s_token(cluster: RayCluster, sandbox: Sandbox, gate: Gate) -> None:
    options = on(cluster, sandbox)
    write_items(sandbox, 1, gate=gate.address)
    started = sandbox.start(*options, graph="flow.py:graph")
    eventually(lambda: gate.arrived, "the worker")
    worker = int(gate.arrived[0].split()[1])
    assert worker not in processes_with("RAY_AUTH_TOKEN", cluster.environment["RAY_AUTH_TOKEN"])
    gate.open()
    assert started.wait().code == 0


def test_an_encrypted_cluster_is_joined_with_its_certificates_and_not_without(sandbox: Sandbox) -> None:
    encrypted = RayCluster(cpus=2, further=certificates(sandbox.root))
    try:
        options = on(encrypted, sandbox)
        write_items(sandbox, 2)
        joined = sandbox.run("--parallel", "2", *options, graph="flow.py:graph")
        checked = sandbox.command("cluster", "check", "--address", encrypted.address)
        refused = sandbox.run(*options, "--fresh", graph="flow.py:graph", env={"RAY_USE_TLS": "0"})
    finally:
        encrypted.close()
    assert joined.code == 0, joined.stderr
    assert "ok       encryption: Ray's TLS is on" in checked.lines
    assert refused.code == 2


def test_a_bridge_that_waits_for_a_cluster_ends_with_its_coordinator() -> None:
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [sys.executable, "-P", "-m", "agentos.engine.backends.ray.bridge", str(theirs.fileno())]
        bridge = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        theirs.close()
        join = Join(
            address=f"127.0.0.1:{silent.getsockname()[1]}",
            run_id="r",
            parallel=1,
            max_per_node=1,
            resources={"CPU": 1.0},
            makes_environment=False,
        )
        ours.sendall(frame(BRIDGE_CHANNEL, to_bridge.encode(join)))
        silent.accept()[0].close()
        ours.close()
        assert bridge.wait(60) == 0
