"""Whatever dies, is cut off or falls asleep, in whatever order: nothing lost, nothing done twice, nothing left.

`AGENTOS_CHAOS_EVENTS=200 AGENTOS_CHAOS_SEED=7 make test-cluster` plays more of it, or the same once more.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from gates import CALLER, Gate
from harness import Sandbox, Started, eventually, no_process_left
from machines import HOST_ADDRESS, Forwarder, Machine, machines

from fakes.postgres import PASSWORD, PostgresServer
from fakes.ray_cluster import RayCluster

pytestmark = [
    pytest.mark.needs_ray,
    pytest.mark.needs_postgres,
    pytest.mark.needs_machines,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

EVENTS = int(os.environ.get("AGENTOS_CHAOS_EVENTS", "25"))
SEED = int(os.environ.get("AGENTOS_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10_000)
ITEMS = 60
STEPS = "abcde"
PAUSE_SECONDS = (0.5, 3.0)
"""Between two events."""
LONGEST_CUT_SECONDS = 60.0 if EVENTS >= 100 else 12.0
LONGEST_SLEEP_SECONDS = 12.0
LONGEST_STEP_SECONDS = max(2.0, EVENTS * 0.04)
"""So that there is work as long as something happens."""
LONGEST_IDLE_SECONDS = 15.0
"""How long an event waits for work that it could disturb."""

FLOW = f"""
import os, random, time, uuid
from operator import add
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
{CALLER}
class State(TypedDict, total=False):
    journal: str
    trail: Annotated[list[str], add]
    last: str

def wait_for_the_end(gate):
    while True:
        try:
            return pass_gate(gate, os.environ["AGENTOS_ITEM_ID"], "last")
        except OSError:
            time.sleep(0.5)

def work(step):
    def node(state):
        mark = f"{{step}} {{uuid.uuid4().hex}}"
        try:
            pass_gate(state["journal"], os.environ["AGENTOS_ITEM_ID"], mark)
        except OSError:
            pass  # The journal is evidence; a cut cable may cost a line of it.
        time.sleep(random.uniform(0.2, {LONGEST_STEP_SECONDS}))
        if step == "{STEPS[-1]}" and state.get("last"):
            wait_for_the_end(state["last"])
        return {{"trail": [mark]}}
    return node

graph = StateGraph(State)
names = {list(STEPS)!r}
for name in names:
    graph.add_node(name, work(name))
for before, after in zip([START, *names], [*names, END]):
    graph.add_edge(before, after)
"""


@dataclass
class Town:
    cluster: RayCluster
    machines: list[Machine]
    server: PostgresServer
    database_url: str
    chance: random.Random
    healing: list[threading.Timer] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    """Machines that are cut off or asleep for now."""
    played: list[str] = field(default_factory=list)

    def play(self) -> None:
        """One event, if what it is about is there."""
        events: list[Callable[[], str]] = [
            self._kill_a_worker,
            self._kill_a_worker,
            self._kill_a_supervisor,
            self._cut_a_cable,
            self._suspend_a_machine,
            self._pull_a_plug,
            self._kill_a_node,
            self._restart_the_database,
        ]
        if told := self.chance.choice(events)():
            self.played.append(told)
            print(f"{len(self.played):4} {told}", file=sys.stderr, flush=True)

    def _machine(self) -> Machine | None:
        free = [machine for machine in self.machines if machine.name not in self.busy]
        return self.chance.choice(free) if free else None

    def _kill(self, name: str, wanted: Callable[[str], bool]) -> str:
        machine = self._machine()
        pids = [pid for pid in machine.processes() if wanted(command_line(pid))] if machine else []
        if machine is None or not pids:
            return ""
        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(pids), signal.SIGKILL)
        return f"{name} of {machine.name} killed"

    def _kill_a_worker(self) -> str:
        return self._kill("a worker", lambda line: "forkserver" in line)

    def _kill_a_supervisor(self) -> str:
        return self._kill("the supervisor", lambda line: "Supervisor" in line)

    def _kill_a_node(self) -> str:
        return self._kill("the node process", lambda line: "backends.ray.node" in line)

    def _cut_a_cable(self) -> str:
        return self._away(Machine.cut, Machine.heal, "cut off", LONGEST_CUT_SECONDS)

    def _suspend_a_machine(self) -> str:
        return self._away(Machine.suspend, Machine.wake, "asleep", LONGEST_SLEEP_SECONDS)

    def _pull_a_plug(self) -> str:
        return self._away(Machine.pull_the_plug, Machine.switch_on, "without power", LONGEST_SLEEP_SECONDS)

    def _away(
        self, begin: Callable[[Machine], None], end: Callable[[Machine], None], name: str, longest: float
    ) -> str:
        machine = self._machine()
        if machine is None:
            return ""
        seconds = self.chance.uniform(1.0, longest)
        self.busy.add(machine.name)
        begin(machine)
        timer = threading.Timer(seconds, self._back, [machine, end])
        timer.daemon = True
        timer.start()
        self.healing.append(timer)
        return f"{machine.name} {name} for {seconds:.0f} s"

    def _back(self, machine: Machine, end: Callable[[Machine], None]) -> None:
        end(machine)
        self.busy.discard(machine.name)

    def _restart_the_database(self) -> str:
        self.server.kill() if self.chance.random() < 0.5 else self.server.stop()
        time.sleep(self.chance.uniform(0.0, 3.0))
        self.server.start()
        return "the database restarted"

    def heal_all(self) -> None:
        for timer in self.healing:
            timer.join()


@pytest.fixture
def town() -> Iterator[Town]:
    with PostgresServer() as server, machines(3, further={"PGPASSWORD": PASSWORD}) as (cluster, made):
        parts = urlsplit(server.url)
        forwarder = Forwarder(int(parts.port or 0))
        url = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{HOST_ADDRESS}:{forwarder.port}").geturl()
        yield Town(cluster, made, server, url, random.Random(SEED))
        forwarder.close()


def test_nothing_is_lost_repeated_or_left_whatever_happens(town: Town, sandbox: Sandbox) -> None:
    print(f"seed {SEED}, {EVENTS} events", file=sys.stderr)
    sandbox.environment.update(town.cluster.environment)
    sandbox.environment |= {
        "AGENTOS_CHECKPOINTS__URL": town.database_url,
        "AGENTOS_CHECKPOINTS__PROJECT": f"chaos{os.getpid()}",
        "AGENTOS_CHECKPOINTS__PATIENCE_SECONDS": "60",
        "AGENTOS_CLUSTER__BACKEND": "ray",
        "AGENTOS_CLUSTER__ADDRESS": town.cluster.address,
    }
    (sandbox.project / "flow.py").write_text(FLOW)
    journal = Gate(HOST_ADDRESS)
    journal.open()
    last = Gate(HOST_ADDRESS)
    ids = [f"i{number}" for number in range(1, ITEMS + 1)]
    inputs = {item: {"journal": journal.address} for item in ids}
    inputs[ids[-1]]["last"] = last.address
    sandbox.write_items(*({"id": item, "input": inputs[item]} for item in ids))

    results = sandbox.project / "results.jsonl"
    commands = 0
    while True:
        commands += 1
        options = ("--parallel", "6", "--retry", "50", "--output", str(results))
        started = sandbox.start(*options, graph="flow.py:graph")
        # What happens before there is anything to lose proves little.
        eventually(lambda: journal.arrived or started.process.poll() is not None, "the first step", 300)  # noqa: B023
        play_while_it_runs(town, started, journal, last)
        code = started.process.wait()
        print(f"command {commands} exited {code} after {len(town.played)} events", file=sys.stderr)
        if code == 0:
            break
        # It may stop, gracefully and with its reason; then the same command goes on.
        assert commands < 20, started.stdout()[-3000:]
        town.heal_all()
    town.heal_all()
    journal.close()
    last.close()
    assert len(town.played) == EVENTS

    trails = results_of(results)
    assert sorted(trails) == sorted(ids)
    for item, trail in trails.items():
        assert [mark.split()[0] for mark in trail] == list(STEPS), (item, trail)
        assert not repeated_after_it_was_finished(item, journal.arrived), (item, trail)
    for machine in town.machines:
        eventually(lambda machine=machine: not left_on(machine), f"the end of all on {machine.name}", 30)  # type: ignore[misc]
    no_process_left(sandbox.home)


def play_while_it_runs(town: Town, started: Started, journal: Gate, last: Gate) -> None:
    """Each event once a step has begun since the one before. The last item ends when everything has been played."""
    while started.process.poll() is None:
        before = len(journal.arrived)
        time.sleep(town.chance.uniform(*PAUSE_SECONDS))
        if len(town.played) >= EVENTS:
            last.open()
            continue
        deadline = time.monotonic() + LONGEST_IDLE_SECONDS
        while len(journal.arrived) == before and time.monotonic() < deadline and started.process.poll() is None:
            time.sleep(0.05)
        if started.process.poll() is None:
            town.play()


def results_of(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        record: dict[str, Any] = json.loads(line)
        if record["outcome"] == "completed":
            assert record["id"] not in found, f"{record['id']} has two results"
            found[record["id"]] = record["state"]["trail"]
    return found


def repeated_after_it_was_finished(item: str, arrived: list[str]) -> list[str]:
    """Steps that began again although one after them had begun."""
    begun = [words.split()[1] for words in arrived if words.split()[0] == item]
    return [f"{before} {after}" for before, after in pairwise(begun) if after < before]


def left_on(machine: Machine) -> list[str]:
    return [line for line in machine.commands() if "agentos.engine.backends" in line]


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
