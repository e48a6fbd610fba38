"""Checkpoints in PostgreSQL with the installed command: what a user knows of kill, stop and resume stays true."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from harness import (
    STOP_DEADLINE_SECONDS,
    Finished,
    Sandbox,
    Started,
    children_of,
    eventually,
    no_process_left,
    of_type,
    processes_with,
)

from fakes.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.needs_postgres
LONG_NODES = [f"n{number}" for number in range(1, 9)]


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


@dataclass
class Office:
    """A sandbox whose checkpoints are in a database, under a project of its own."""

    sandbox: Sandbox
    server: PostgresServer
    project: str

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with closing(psycopg.connect(self.server.url, autocommit=True)) as connection:
            cursor = connection.execute(query, {"project": self.project})
            return cursor.fetchall() if cursor.description else []

    def is_empty(self) -> bool:
        tables = ("items", "claims", "done", "spent")
        return not any(self.rows(f"SELECT 1 FROM agentos.{table} WHERE project = %(project)s") for table in tables)

    def another_machine(self) -> Sandbox:
        """Another home, and the project in another place."""
        root = self.sandbox.root / "laptop"
        made = Sandbox(
            root, {name: self.sandbox.environment[name] for name in self.sandbox.environment if "CHECKP" in name}
        )
        shutil.copy(self.sandbox.root / "items.jsonl", root)
        made.environment["JOURNAL"] = str(self.sandbox.journal)
        return made

    def starts_of(self, item_id: str) -> list[str]:
        return [n.split()[1] for n in self.sandbox.notes() if n.startswith(f"{item_id} ") and n.endswith(" start")]


def made_office(sandbox: Sandbox, server: PostgresServer, patience: int = 60) -> Office:
    project = f"test-{uuid.uuid4().hex}"
    sandbox.environment |= {
        "AGENTOS_CHECKPOINTS__URL": server.url,
        "AGENTOS_CHECKPOINTS__PROJECT": project,
        "AGENTOS_CHECKPOINTS__PATIENCE_SECONDS": str(patience),
    }
    return Office(sandbox, server, project)


@pytest.fixture
def office(sandbox: Sandbox, postgres: PostgresServer) -> Office:
    return made_office(sandbox, postgres)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """For tests that end it."""
    with PostgresServer() as server:
        yield server


def test_a_laptop_resumes_what_the_office_began_and_success_leaves_no_row(office: Office) -> None:
    sandbox = office.sandbox
    sandbox.write_items(item("good"), item("bad", n2="fail_once f"))
    assert sandbox.run().code == 1
    assert sandbox.databases() == []
    laptop = office.another_machine()
    try:
        dry = laptop.run("--dry-run")
        again = laptop.run()
        assert [line.split("  ")[-1] for line in dry.lines if "bad" in line] == ["(resumes after n1)"]
        assert any("good" in line and "done in run" in line for line in dry.lines), dry.stdout
        assert again.code == 0, again.stdout + again.stderr
        assert "[bad] resuming after n1" in again.lines
        assert office.starts_of("bad") == ["n1", "n2", "n2", "n3"]
        assert office.starts_of("good") == ["n1", "n2", "n3"]
        assert office.is_empty()
    finally:
        laptop.close()


def test_documents_of_a_resumed_item_go_into_the_project_of_the_machine_that_finishes_it(office: Office) -> None:
    sandbox = office.sandbox
    sandbox.write_items({"id": "a", "input": {"path": "docs/a.md", "tasks": {"last": "fail_once f"}}})
    (sandbox.project / "graphs" / "writer.py").write_text(WRITER)
    assert sandbox.run(graph="writer").code == 1
    laptop = office.another_machine()
    try:
        (laptop.project / "graphs" / "writer.py").write_text(WRITER)
        again = laptop.run(graph="writer")
        assert again.code == 0, again.stdout + again.stderr
        assert (laptop.project / "docs" / "a.md").read_text() == "by first"
        assert not (sandbox.project / "docs").exists()
    finally:
        laptop.close()


WRITER = """
from typing import Any, TypedDict
from pathlib import Path
from agentos import outputs
from journal import step
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    path: str
    tasks: dict[str, str]

def first(state):
    outputs.write(Path.cwd() / state["path"], "by first")
    return {}

def last(state):
    step("last", state["tasks"])
    return {}

graph = StateGraph(State)
graph.add_node("first", first)
graph.add_node("last", last)
graph.add_edge(START, "first")
graph.add_edge("first", "last")
graph.add_edge("last", END)
"""


def test_the_password_is_in_no_output_file_process_list_or_environment(office: Office) -> None:
    sandbox = office.sandbox
    sandbox.write_items(
        item("a", n1="environment AGENTOS_CHECKPOINTS__URL", n2="wait go", n3=f"print the password is {PASSWORD}")
    )
    run = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    workers = [pid for pid in processes_with("AGENTOS_HOME", sandbox.home) if pid != run.pid]
    seen = [Path(f"/proc/{pid}/{name}").read_bytes() for pid in workers for name in ("environ", "cmdline")]
    sandbox.release("go")
    done = run.wait()

    assert done.code == 0, done.stdout
    assert len(seen) >= 4
    kept = [path.read_bytes() for path in sandbox.home.rglob("*") if path.is_file()]
    everything = b"\n".join([*seen, *kept, done.stdout.encode(), done.stderr.encode()])
    for form in (PASSWORD, PASSWORD.replace("/", "%2F").replace("+", "%2B")):
        assert form.encode() not in everything
    assert "[a] the password is *" in done.stdout
    shown = sandbox.command("config", "--json").stdout
    assert "SENTINEL" not in shown
    assert "AGENTOS_CHECKPOINTS__URL=None" in sandbox.notes()


def test_a_second_machine_skips_what_the_first_holds_and_says_who_holds_it(office: Office) -> None:
    sandbox = office.sandbox
    sandbox.write_items(item("a", n2="wait go"))
    run = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    laptop = office.another_machine()
    try:
        second = laptop.run()
        [first_run] = [path.name for path in sandbox.run_dirs()]
        assert f"[a] skipped: held by run {first_run} on {socket.gethostname()}" in second.lines
    finally:
        laptop.close()
    sandbox.release("go")
    assert run.wait().code == 0
    assert office.starts_of("a") == ["n1", "n2", "n3"]


@pytest.mark.parametrize("victim", ["worker", "coordinator"])
def test_a_kill_at_a_node_boundary_reruns_that_node_and_no_other(office: Office, victim: str) -> None:
    sandbox = office.sandbox
    points = {"n2": "n2", "n2-end": "n2 end"}
    sandbox.write_items(*(item(i, **{point: f"kill_once {victim} {i}.killed"}) for i, point in points.items()))
    for _ in range(8):
        # At once after each death: the claims that a dead run left behind are taken over.
        if sandbox.run().code == 0:
            break
    for name in points:
        assert office.starts_of(name) == ["n1", "n2", "n2", "n3"]
    assert office.is_empty()


def test_nodes_in_flight_wait_for_a_server_that_comes_back(sandbox: Sandbox, own_server: PostgresServer) -> None:
    office = made_office(sandbox, own_server)
    sandbox.write_items(item("a", n2="wait go"), item("b", n2="wait go"))
    run = sandbox.start("--parallel", "2")
    for name in "ab":
        sandbox.wait_for_note(f"{name} n2 start")
    own_server.kill()
    sandbox.release("go")
    run.wait_for_line("does not answer")
    own_server.start()
    done = run.wait()

    assert done.code == 0, done.stdout
    assert [line for line in done.lines if "waiting up to 60 s" in line]
    for name in "ab":
        assert office.starts_of(name) == ["n1", "n2", "n3"]
    assert office.is_empty()


def test_output_goes_on_while_the_run_waits_for_its_server(sandbox: Sandbox, own_server: PostgresServer) -> None:
    made_office(sandbox, own_server, patience=600)
    a = item("a", **{"n2": "wait die", "n2 end": "kill_once worker a.killed"})
    sandbox.write_items(a, item("b", **{"n2": "wait go", "n2 end": "print still here"}))
    run = sandbox.start("--parallel", "2", "--retry", "1")
    for name in "ab":
        sandbox.wait_for_note(f"{name} n2 start")
    own_server.kill()
    sandbox.release("die")
    # The end of an item's worker is something to ask the server about, and its next start.
    run.wait_for_line("does not answer")
    sandbox.release("go")
    run.wait_for_line("[b] still here")
    own_server.start()
    done = run.wait()

    assert done.code == 0, done.stdout
    assert "[a] resuming after n1" in done.lines


def test_a_server_that_stays_away_stops_the_run_which_resumes_later(
    sandbox: Sandbox, own_server: PostgresServer
) -> None:
    office = made_office(sandbox, own_server, patience=1)
    sandbox.write_items(item("a", n2="wait go"), item("b"), item("c"))
    run = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    own_server.stop(signal.SIGKILL)
    sandbox.release("go")
    stopped = run.wait()
    no_process_left(sandbox.home)
    unreachable = sandbox.run()
    own_server.kill()
    own_server.start()
    again = sandbox.run()

    assert stopped.code == 1
    assert of_type(sandbox.records(), "run_faulted")
    assert "does not answer" in stopped.stdout
    assert "Resume with: " in stopped.stdout
    assert (unreachable.code, "does not answer" in unreachable.stderr) == (1, True)
    assert PASSWORD not in unreachable.stderr
    assert again.code == 0, again.stdout + again.stderr
    # What n2 came to was not kept: it is the node in flight.
    assert office.starts_of("a") == ["n1", "n2", "n2", "n3"]
    assert [office.starts_of(name) for name in "bc"] == [["n1", "n2", "n3"]] * 2


def test_a_run_that_went_silent_and_was_taken_over_cannot_write(office: Office) -> None:
    sandbox = office.sandbox
    sandbox.write_items(item("a", n2="wait go"))
    silent = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    asleep = processes_with("AGENTOS_HOME", sandbox.home)
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    # As if its lease had run out, without the wait.
    office.rows("UPDATE agentos.claims SET expires = now() - interval '1 second' WHERE project = %(project)s")
    laptop = office.another_machine()
    try:
        sandbox.release("go")
        taken_over = laptop.run()
        assert taken_over.code == 0, taken_over.stdout + taken_over.stderr
        assert "[a] resuming after n1" in taken_over.lines
    finally:
        laptop.close()
    for pid in asleep:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    refused = silent.wait()

    assert refused.code == 1
    assert "has taken this item over" in refused.stdout
    assert office.starts_of("a") == ["n1", "n2", "n2", "n3"]
    assert office.is_empty()


def test_ctrl_c_ends_a_run_that_waits_for_the_server(sandbox: Sandbox, own_server: PostgresServer) -> None:
    made_office(sandbox, own_server, patience=3600)
    sandbox.write_items(item("a", n2="wait go"))
    run = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    own_server.stop(signal.SIGKILL)
    sandbox.release("go")
    run.wait_for_line("does not answer")
    run.kill(signal.SIGINT)
    assert run.wait().code == 130
    no_process_left(sandbox.home)
    own_server.kill()


def test_ctrl_c_ends_a_run_whose_server_is_there_and_says_nothing(
    sandbox: Sandbox, own_server: PostgresServer
) -> None:
    made_office(sandbox, own_server, patience=3600)
    sandbox.write_items(item("a", n2="wait go"), item("b", n2="wait go"))
    run = sandbox.start("--parallel", "2")
    for name in "ab":
        sandbox.wait_for_note(f"{name} n2 start")
    own_server.freeze()
    try:
        sandbox.release("go")
        run.kill(signal.SIGINT)
        assert run.wait(STOP_DEADLINE_SECONDS).code == 130
        no_process_left(sandbox.home)
    finally:
        own_server.thaw()


def test_a_person_answers_an_item_that_waits_in_the_database(office: Office) -> None:
    sandbox = office.sandbox
    (sandbox.project / "graphs" / "asking.py").write_text(ASKING)
    sandbox.write_items({"id": "a", "input": {"text": "x"}})
    parked = sandbox.run(graph="asking")
    laptop = office.another_machine()
    try:
        (laptop.project / "graphs" / "asking.py").write_text(ASKING)
        listed = laptop.command("review")
        answered = laptop.command("review", "a", "--answer", '"yes"')
        done = laptop.run(graph="asking")
    finally:
        laptop.close()

    assert parked.code == 3, parked.stdout
    assert "a" in listed.stdout, listed.stderr
    assert answered.code == 0, answered.stdout + answered.stderr
    assert done.code == 0, done.stdout + done.stderr
    assert "[a] heard yes" in done.lines
    assert office.is_empty()


ASKING = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

class State(TypedDict, total=False):
    text: str

def ask(state):
    print("heard", interrupt("sure?"))
    return {}

graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_edge(START, "ask")
graph.add_edge("ask", END)
"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 112))])
def test_kills_at_any_instant_lose_at_most_the_node_in_flight(
    sandbox: Sandbox, own_server: PostgresServer, seed: int
) -> None:
    office = made_office(sandbox, own_server)
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    sandbox.write_items(*(item(name) for name in names))
    killed = 0
    for _ in range(10):
        run = sandbox.start("--parallel", "3", "--retry", "9", graph="graphs/steps.py:long")
        while killed < 6 and some_notes_later(run, chance):
            killed += kill(office, run, chance)
        finished = run.wait()
        if finished.code == 0:
            break

    assert killed > 0
    assert finished.code == 0, finished.stdout
    for name in names:
        starts = office.starts_of(name)
        assert [node for node, _ in groupby(starts)] == LONG_NODES
        trails = [note for note in sandbox.notes() if note.startswith(f"{name} trail")]
        assert trails[-1] == f"{name} trail {' '.join(LONG_NODES)}"
    finished_nodes: set[tuple[str, str]] = set()
    for record in sandbox.records():
        if record["type"] == "node_finished":
            finished_nodes.add((record["item"], record["node"]))
        elif record["type"] == "node_started":
            assert (record["item"], record["node"]) not in finished_nodes


def some_notes_later(run: Started, chance: random.Random) -> bool:
    goal = len(run.sandbox.notes()) + chance.randint(1, 12)
    eventually(lambda: len(run.sandbox.notes()) >= goal or run.process.poll() is not None, "progress")
    return run.process.poll() is None


def kill(office: Office, run: Started, chance: random.Random) -> int:
    """A worker, the coordinator, or the database server, which comes back."""
    workers = [pid for server in children_of(run.pid) for pid in children_of(server)]
    match chance.choice(["worker", "worker", "server", "coordinator"]):
        case "worker" if workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
        case "server":
            office.server.kill()
            office.server.start()
        case "coordinator":
            run.kill()
            run.process.wait()
        case _:
            return 0
    return 1


def test_a_second_address_of_the_same_settings_is_refused_with_what_to_do(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"))

    def refused(**variables: str) -> Finished:
        done = sandbox.run(env={f"AGENTOS_CHECKPOINTS__{name.upper()}": value for name, value in variables.items()})
        assert done.code == 2
        return done

    unnamed = refused(url="postgresql://u:secretword@127.0.0.1:1/db")
    assert 'project = "…"' in unnamed.stderr
    wrong = refused(url="mysql://u:secretword@127.0.0.1:1/db", project="p")
    assert "must be an address like postgresql://" in wrong.stderr
    (sandbox.project / "agentos.toml").write_text(
        '[checkpoints]\nurl = "postgresql://u:secretword@db.example/x"\nproject = "p"\n'
    )
    stranger = refused()
    assert "export AGENTOS_CHECKPOINTS__URL=postgresql://u@db.example/x" in stranger.stderr
    assert not [each for each in (unnamed, wrong, stranger) if "secretword" in each.stdout + each.stderr]
    assert sandbox.notes() == []
