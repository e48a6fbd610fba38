"""A node's result is on disk before the next node starts: whatever is killed, at most the node in flight is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from harness import Finished, Sandbox, Started, children_of, eventually, no_process_left, of_type, processes_with

VICTIMS = ("worker", "server", "coordinator")
LONG_NODES = [f"n{number}" for number in range(1, 9)]


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


def starts_of(sandbox: Sandbox, item_id: str) -> list[str]:
    """The nodes of an item in the order they started, over all runs."""
    return [n.split()[1] for n in sandbox.notes() if n.startswith(f"{item_id} ") and n.endswith(" start")]


NODES = ["n1", "n2", "n3"]


def unfinished(sandbox: Sandbox, names: list[str]) -> list[str]:
    return [name for name in names if sandbox.outcomes().get(name) != "completed"]


def run_until_done(sandbox: Sandbox, names: list[str], most_runs: int = 12) -> int:
    """The same command again and again, at once after each death, until all is done. How often it took."""
    for number in range(most_runs):
        if not unfinished(sandbox, names):
            return number
        sandbox.run()
    raise AssertionError(f"not done after {most_runs} runs")


@pytest.mark.every_backend
def test_a_kill_of_a_worker_at_any_node_boundary_reruns_that_node_and_no_other(sandbox: Sandbox) -> None:
    kills_at_node_boundaries(sandbox, "worker", NODES, least_runs=2)


@pytest.mark.parametrize(
    ("victim", "nodes"),
    [
        ("coordinator", ["n2"]),
        pytest.param("coordinator", NODES, marks=pytest.mark.slow),
        pytest.param("server", NODES, marks=pytest.mark.slow),
    ],
)
def test_a_kill_of_what_has_workers_at_any_node_boundary_reruns_that_node_and_no_other(
    sandbox: Sandbox, victim: str, nodes: list[str]
) -> None:
    least_runs = 2 if victim == "server" else 2 * len(nodes) + 1
    kills_at_node_boundaries(sandbox, victim, nodes, least_runs=least_runs)


def kills_at_node_boundaries(sandbox: Sandbox, victim: str, nodes: list[str], *, least_runs: int) -> None:
    boundaries = [(node, point) for node in nodes for point in ("", " end")]
    items = [(f"{node}{'-end' if point else ''}", node, point) for node, point in boundaries]
    sandbox.write_items(
        *({"id": i, "input": {"tasks": {node + point: f"kill_once {victim} {i}.killed"}}} for i, node, point in items)
    )

    assert run_until_done(sandbox, [item_id for item_id, _, _ in items]) >= least_runs

    for item_id, killed_in, _ in items:
        expected = [node for node in NODES for _ in range(2 if node == killed_in else 1)]
        assert starts_of(sandbox, item_id) == expected
    assert set(sandbox.outcomes().values()) == {"completed"}
    assert sandbox.databases() == []


def test_a_kill_between_a_nodes_commit_and_its_record_reruns_no_node_and_shows_the_one_before(
    sandbox: Sandbox,
) -> None:
    sandbox.write_items(item("a", n2="die_before_record killed"))
    assert sandbox.run().code == 1

    shown = sandbox.run("--dry-run").stdout
    again = sandbox.run()

    assert "a  (resumes after n1)" in shown
    assert "[a] resuming after n2" in again.lines
    assert again.code == 0
    assert starts_of(sandbox, "a") == ["n1", "n2", "n3"]
    assert sandbox.databases() == []


@pytest.mark.every_backend
def test_fresh_starts_over_once_and_not_again_when_the_fork_server_is_lost(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n2="fail_once f", n3="kill_once server k"))
    assert sandbox.run().code == 1

    done = sandbox.run("--fresh")

    assert done.code == 0
    assert "fork server was killed" in done.stdout
    assert starts_of(sandbox, "a") == ["n1", "n2", "n1", "n2", "n3", "n3"]


@pytest.mark.every_backend
def test_a_fork_server_that_is_lost_again_and_again_stops_the_run_and_it_resumes(sandbox: Sandbox) -> None:
    sandbox.write_items(
        item("a", n1="kill_once server 1", n2="kill_once server 2", n3="kill_once server 3"),
        item("b", n2="kill_once server 4"),
    )

    stopped = sandbox.run("--parallel", "1")

    assert stopped.code == 1
    assert "the fork server was killed 4 times" in stopped.stdout
    assert "1 item left: b" in stopped.stdout
    assert sandbox.run("--parallel", "1").code == 0
    assert starts_of(sandbox, "b") == ["n1", "n2", "n2", "n3"]


@pytest.mark.parametrize(
    ("victim", "seed", "kills", "method"),
    [
        ("worker", 1, 6, "forkserver"),
        pytest.param("server", 2, 4, "forkserver", marks=pytest.mark.slow),
        ("coordinator", 3, 4, "forkserver"),
        pytest.param("everything", 4, 3, "forkserver", marks=pytest.mark.slow),
        pytest.param("coordinator", 5, 1, "spawn", marks=pytest.mark.slow),
        *(pytest.param(v, s, 8, "forkserver", marks=pytest.mark.slow) for v in VICTIMS for s in range(100, 110)),
    ],
)
def test_a_kill_at_any_instant_loses_at_most_the_node_in_flight(
    sandbox: Sandbox, victim: str, seed: int, kills: int, method: str
) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    sandbox.write_items(*(item(name) for name in names))
    done_kills = 0
    for _ in range(kills + 2):
        if not unfinished(sandbox, names):
            break
        options = ("--parallel", "3", "--retry", "9", "--start-method", method)
        run = sandbox.start(*options, graph="graphs/steps.py:long")
        while done_kills < kills and a_random_instant_comes(run, chance):
            done_kills += kill(run, victim, chance)
        run.wait()

    assert done_kills > 0
    assert set(sandbox.outcomes().values()) == {"completed"}
    for name in names:
        starts = starts_of(sandbox, name)
        # In order, none left out, and a repetition only right after itself: never back to an earlier node.
        assert [node for node, _ in groupby(starts)] == LONG_NODES
        assert len(starts) - len(LONG_NODES) <= done_kills
        trails = [note for note in sandbox.notes() if note.startswith(f"{name} trail")]
        assert trails[-1] == f"{name} trail {' '.join(LONG_NODES)}"
    assert_nothing_recorded_as_finished_ran_again(sandbox)
    assert_what_a_kill_kept_from_removal_goes_without_a_node(sandbox, names)


def a_random_instant_comes(run: Started, chance: random.Random) -> bool:
    """Wait for some more notes in the journal and a moment longer. False when the run ended before."""
    goal = len(run.sandbox.notes()) + chance.randint(1, 16)
    eventually(lambda: len(run.sandbox.notes()) >= goal or run.process.poll() is not None, "progress")
    time.sleep(chance.uniform(0, 0.004))  # So that kills fall between notes too.
    return run.process.poll() is None


def kill(run: Started, victim: str, chance: random.Random) -> int:
    """How many kills there were: none when the victim was gone already."""
    servers = children_of(run.pid)
    workers = [pid for server in servers for pid in children_of(server)]
    match victim:
        case "worker":
            targets = chance.sample(workers, 1) if workers else []
        case "server":
            targets = servers
        case "coordinator":
            targets = [run.pid]
        case _:
            targets = processes_with("AGENTOS_HOME", run.sandbox.home)
    for pid in targets:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if run.pid in targets:
        run.process.wait()
    return 1 if targets else 0


def assert_nothing_recorded_as_finished_ran_again(sandbox: Sandbox) -> None:
    finished: set[tuple[str, str]] = set()
    for record in sandbox.records():
        if record["type"] == "node_finished":
            finished.add((record["item"], record["node"]))
        elif record["type"] == "node_started":
            assert (record["item"], record["node"]) not in finished


def assert_what_a_kill_kept_from_removal_goes_without_a_node(sandbox: Sandbox, names: list[str]) -> None:
    """A kill right after an item's success was recorded may leave its database: finished, so nothing runs again."""
    kept = [name for name in names if f"graphs-steps-long_workflow_{name}.db" in sandbox.databases()]
    notes = sandbox.notes()
    if kept:
        assert sandbox.run(*kept, graph="graphs/steps.py:long").code == 0
    assert sandbox.notes() == notes
    assert not [name for name in sandbox.databases() if name.endswith(".db")]


@pytest.mark.every_backend
def test_success_removes_the_database_failure_keeps_it_and_the_next_run_says_it_resumes(sandbox: Sandbox) -> None:
    sandbox.write_items(item("good"), item("bad", n2="fail_once f"))

    assert sandbox.run().code == 1
    assert sandbox.databases()[0] == "graphs-steps-graph_workflow_bad.db"
    assert not [name for name in sandbox.databases() if "good" in name]
    again = sandbox.run("bad")

    assert again.code == 0
    assert "[bad] resuming after n1" in again.lines
    assert [r["resumed_after"] for r in of_type(sandbox.records(), "item_started", "bad")] == [None, "n1"]
    assert starts_of(sandbox, "bad") == ["n1", "n2", "n2", "n3"]
    assert sandbox.databases() == []


@pytest.mark.every_backend
def test_a_changed_input_fails_its_item_alone_until_fresh_starts_it_over(sandbox: Sandbox) -> None:
    sandbox.write_items(item("same", n2="fail_once s"), item("changed", n2="fail_once c"))
    assert sandbox.run().code == 1
    sandbox.write_items(item("same", n2="fail_once s"), item("changed", n3="print new input"))

    refused = sandbox.run()

    assert refused.code == 1
    assert sandbox.outcomes() == {"same": "completed", "changed": "failed"}
    ending = sandbox.endings()["changed"]
    assert ending["error_type"] == "InputChanged"
    assert "--fresh" in ending["reason"]
    assert starts_of(sandbox, "changed") == ["n1", "n2"]  # Nothing ran in the second run.

    fresh = sandbox.run("changed", "--fresh")

    assert fresh.code == 0
    assert starts_of(sandbox, "changed") == ["n1", "n2", "n1", "n2", "n3"]
    assert "[changed] new input" in fresh.lines
    assert "resuming" not in fresh.stdout


def test_a_changed_input_of_an_item_that_has_done_nothing_yet_is_taken(sandbox: Sandbox) -> None:
    busy = [item(name, n2="wait never") for name in ("one", "two")]
    sandbox.write_items(item("failed", n1="raise old"), *busy, item("next"))
    run = sandbox.start("--parallel", "2")
    for name in ("one", "two"):
        sandbox.wait_for_note(f"{name} n2 start")
    # Made ready for its turn, which does not come.
    eventually(lambda: any("next" in name for name in sandbox.databases()), "a worker made ahead")
    run.kill()
    run.wait()
    no_process_left(sandbox.home)
    sandbox.write_items(item("failed", n1="print new"), item("next", n1="print new"))

    dry = json.loads(sandbox.run("--dry-run", "--json").stdout)
    done = sandbox.run()

    assert [entry["input_changed"] for entry in dry["items"]] == [False, False]
    assert done.code == 0, done.stdout
    assert [f"[{name}] new" in done.lines for name in ("failed", "next")] == [True, True]


def overwrite_with_text(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, but long enough to look like one" * 100)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096 + 100)


def overwrite_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def spoil_saved_state(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE checkpoints SET checkpoint = ?", (b"\xc1\xc1 not what was saved",))


def spoil_the_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)


def lose_the_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def make_empty(path: Path) -> None:
    for side_file in path.parent.glob(f"{path.name}-*"):
        side_file.unlink()
    path.write_bytes(b"")


DAMAGES = {
    "text": overwrite_with_text,
    "cut": cut_in_half,
    "pages": overwrite_pages,
    "state": spoil_saved_state,
}
LOG_DAMAGES = {"spoiled": spoil_the_log, "lost": lose_the_log}


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Finished]]:
    """Items that failed in n2, or crashed in n3 with their log open, damaged, and the run that continues."""
    made = Sandbox(tmp_path_factory.mktemp("continued"))
    failing = [item(name, n2=f"fail_once {name}.f") for name in ("whole", "empty", *DAMAGES)]
    crashing = [item(name, n3=f"crash_once {name}.c") for name in ("logged", *LOG_DAMAGES)]
    turned = {"id": "turned", "input": {"reason": "r", "tasks": {"n2": "fail_once turned.f", "n3": "print same"}}}
    try:
        made.write_items(*failing, *crashing, turned)
        assert made.run("--parallel", "3").code == 1
        for name, damage in {**DAMAGES, **LOG_DAMAGES, "empty": make_empty}.items():
            [path] = made.home.glob(f"checkpoints/*/*_workflow_{name}.db")
            if name in DAMAGES:
                with closing(sqlite3.connect(path)) as connection:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            damage(path)
        other_order = {"tasks": {"n3": "print same", "n2": "fail_once turned.f"}, "reason": "r"}
        made.write_items(*failing, *crashing, {"input": other_order, "id": "turned"})
        yield made, made.run("--parallel", "3")
    finally:
        made.close()


def test_a_damaged_database_is_set_aside_with_a_message_and_its_item_starts_over(
    continued: tuple[Sandbox, Finished],
) -> None:
    sandbox, again = continued
    assert again.code == 0, again.stdout
    assert starts_of(sandbox, "whole") == ["n1", "n2", "n2", "n3"]
    for name in DAMAGES:
        assert starts_of(sandbox, name) == ["n1", "n2", "n1", "n2", "n3"], name
        [line] = [line for line in again.lines if line.startswith(f"[{name}] ") and "damaged" in line]
        assert "starting over" in line
        assert [kept for kept in sandbox.databases() if f"_{name}.db.damaged-" in kept], name


def test_a_log_that_is_damaged_or_gone_is_said_and_set_aside_like_a_damaged_database(
    continued: tuple[Sandbox, Finished],
) -> None:
    """SQLite takes what is left of it for all there is, without a word."""
    sandbox, again = continued
    assert "[logged] resuming after n2" in again.lines
    for name in LOG_DAMAGES:
        assert starts_of(sandbox, name) == ["n1", "n2", "n3", "n1", "n2", "n3"], name
        [line] = [line for line in again.lines if line.startswith(f"[{name}] checkpoint is damaged")]
        assert "its write-ahead log is missing or damaged" in line
        assert "starting over" in line
        assert [kept for kept in sandbox.databases() if f"_{name}.db.damaged-" in kept], name


def test_an_empty_database_file_is_as_good_as_none(continued: tuple[Sandbox, Finished]) -> None:
    sandbox, _ = continued
    assert starts_of(sandbox, "empty") == ["n1", "n2", "n1", "n2", "n3"]


def test_the_order_of_an_inputs_keys_does_not_count_as_a_change(continued: tuple[Sandbox, Finished]) -> None:
    sandbox, _ = continued
    assert starts_of(sandbox, "turned") == ["n1", "n2", "n2", "n3"]


def test_an_item_that_stays_has_all_of_its_state_in_one_file(sandbox: Sandbox) -> None:
    sandbox.write_items(item("stopped", n2="wait go"), item("failed", n2="fail_once f"))
    run = sandbox.start("--parallel", "2")
    run.wait_for_record("item_ended", item="failed")
    sandbox.wait_for_note("stopped n2 start")
    run.kill(signal.SIGINT)
    assert run.wait().code == 130
    kept = [
        f"graphs-steps-graph_workflow_{name}.db{end}" for name in ("failed", "stopped") for end in ("", ".peek.json")
    ]
    assert sandbox.databases() == kept

    # So a copy of that file alone resumes.
    for record in sandbox.home.glob("checkpoints/*/*.peek.json"):
        record.unlink()
    sandbox.release("go")
    assert sandbox.run().code == 0
    assert starts_of(sandbox, "stopped") == starts_of(sandbox, "failed") == ["n1", "n2", "n2", "n3"]


def test_damage_is_told_though_the_run_is_stopped_before_the_items_turn(sandbox: Sandbox) -> None:
    sandbox.write_items(item("first", n2="wait never"), item("damaged", n2="raise sour"))
    assert sandbox.run("damaged").code == 1
    [path] = sandbox.home.glob("checkpoints/*/*_damaged.db")
    overwrite_with_text(path)
    Path(f"{path}-wal").unlink(missing_ok=True)  # It would make the database whole again.
    run = sandbox.start()
    # Set aside by a worker that is ready for its turn and has the input in its new database.
    eventually(lambda: list(path.parent.glob("*.db.damaged-*")) and _has_step(path), "a worker made ahead")
    run.kill(signal.SIGINT)

    stopped = run.wait()

    assert stopped.code == 130
    assert any(line.startswith("[damaged] checkpoint is damaged") for line in stopped.lines), stopped.stdout


def _has_step(path: Path) -> bool:
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM checkpoints").fetchone())
    return False


def test_a_checkpoint_that_goes_on_with_a_node_that_is_gone_fails_its_item_and_is_kept(sandbox: Sandbox) -> None:
    source = (sandbox.project / "graphs" / "steps.py").read_text()
    flow = sandbox.project / "graphs" / "flow.py"
    flow.write_text(source)
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "fail_once failed"}}})
    assert sandbox.run(graph="flow").code == 1

    flow.write_text(source.replace('"n2"', '"renamed"'))
    renamed = sandbox.run(graph="flow")

    assert renamed.code == 1
    assert "the way to node 'n2', where the item would resume, is gone" in sandbox.endings()["a"]["reason"]
    assert "--fresh" in renamed.stdout

    flow.write_text(source)
    assert sandbox.run(graph="flow").code == 0
    assert [sandbox.notes().count(f"a {node} end") for node in ("n1", "n2", "n3")] == [1, 1, 1]
