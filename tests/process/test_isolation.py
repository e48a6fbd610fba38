"""One item's death is its own: others go on, and what is known of the death is in log and audit."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from harness import Sandbox, eventually, of_type, processes_with

START_METHODS = ("forkserver", "spawn")

# Task of node n2, and what the item's record must say: error type, reason, a piece of the traceback.
DEATHS: dict[str, tuple[str, str, str, str]] = {
    "killed": ("kill 9", "Crashed", "killed by signal 9 (SIGKILL)", ""),
    "segfaulted": ("segfault", "Crashed", "killed by signal 11 (SIGSEGV)", ""),
    "left": ("os_exit 3", "Crashed", "exited with status 3", ""),
    "left-quietly": ("os_exit 0", "Crashed", "exited with status 0", ""),
    "raised": ("raise a plain error", "ValueError", "a plain error", "ValueError: a plain error"),
    "unpicklable": ("unpicklable", "Unpicklable", "cannot travel", "raise error"),
    "unprintable": ("unprintable", "Unprintable", "its text cannot be shown", "raise error"),
    "text-exits": ("text_exits", "TextExits", "its text cannot be shown", "_raise"),
    "incomparable": ("incomparable", "Incomparable", "outer", "inner"),
    "huge": ("raise_huge 8", "ValueError", "huge xxx", "raise error"),
    "endless": ("recurse", "RecursionError", "recursion", "_recurse"),
    "stopped-iterating": ("stop_iteration", "RuntimeError", "generator raised StopIteration", "nothing left"),
    "exited": ("system_exit 0", "SystemExit", "SystemExit", "sys.exit"),
    "exited-in-words": ("system_exit not today", "SystemExit", "not today", "sys.exit"),
    "base": ("base_exception odd one", "OwnBaseException", "odd one", "OwnBaseException"),
    "interrupted-itself": ("keyboard_interrupt", "KeyboardInterrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
    "greedy": ("eat_memory 8000", "MemoryError", "MemoryError", "bytearray"),
}


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


@pytest.mark.parametrize("method", START_METHODS)
def test_whatever_a_node_does_its_item_alone_fails_and_the_record_says_how(sandbox: Sandbox, method: str) -> None:
    # A spawned worker imports LangGraph anew. That it dies alone, tests/contract/test_backend.py shows; here is its
    # limit of memory.
    names = list(DEATHS) if method == "forkserver" else ["greedy"]
    dying = [item(name, n2=DEATHS[name][0]) for name in names]
    sandbox.write_items(item("first"), *dying, item("last"))

    done = sandbox.run("--parallel", "4", "--start-method", method, env={"AGENTOS_MEMORY_LIMIT_MB": "4000"})

    assert done.code == 1
    assert sandbox.outcomes() == {"first": "completed", **dict.fromkeys(names, "failed"), "last": "completed"}
    [run_dir] = sandbox.run_dirs()
    for name in names:
        _, error_type, reason, trace = DEATHS[name]
        ending = sandbox.endings()[name]
        assert ending["error_type"] == error_type, name
        assert reason in ending["reason"], name
        assert trace in ending["traceback"], name
        log = (run_dir / f"{name}.log").read_text()
        assert reason in log
        assert trace in log
        own_audit = [json.loads(line) for line in (run_dir / f"workflow-audit-{name}.jsonl").read_text().splitlines()]
        assert of_type(own_audit, "item_ended") == [ending]
        assert f"[{name}] FAILED: " in done.stdout


def test_a_child_that_a_node_forks_never_speaks_for_the_item(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n2="fork_and_exit go"))
    run = sandbox.start("--timeout-seconds", "600")

    sandbox.wait_for_note("child exited with 7")
    began = time.monotonic()
    # A worker that has had its last word is given 2 s to leave: this one has not had it.
    eventually(lambda: time.monotonic() - began > 2.5, "longer than that")
    sandbox.release("go")

    assert run.wait().code == 0
    assert sandbox.outcomes() == {"a": "completed"}
    assert [sandbox.notes().count(f"a {node} start") for node in ("n1", "n2", "n3")] == [1, 1, 1]


def test_a_node_may_do_away_with_its_own_stdout(sandbox: Sandbox) -> None:
    sandbox.write_items(*(item(how, n2=f"lose_stdout {how}") for how in ("closed", "none", "odd")))

    assert sandbox.run("--parallel", "3").code == 0


@pytest.mark.parametrize("method", START_METHODS)
def test_a_worker_is_a_fresh_process_in_a_group_of_its_own_without_a_terminal(sandbox: Sandbox, method: str) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})

    read_end, write_end = os.pipe()
    os.write(write_end, b"the coordinator's own input\n")
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stdin:
        arguments = sandbox.arguments("--parallel", "2", "--start-method", method, graph="probe")
        done = sandbox.start_command(*arguments, stdin=stdin).wait()

    assert done.code == 0, done.stderr
    seen = {name: json.loads((sandbox.root / f"{name}.json").read_text()) for name in ("a", "b")}
    assert seen["a"]["pid"] != seen["b"]["pid"]
    for name, look in seen.items():
        assert look["group"] == look["session"] == look["pid"]
        assert look["stdin"] == "/dev/null"
        assert look["stdin_text"] == ""
        assert look["times_run_in_this_process"] == 1
        assert look["cwd"] == str(sandbox.project)
        assert look["inheritable_descriptors"] == []
        db_path = Path(look["db"])
        assert look["db_exists"]
        assert db_path.name == f"graphs-probe-graph_workflow_{name}.db"
        assert db_path.parent.parent == sandbox.home / "checkpoints"
        environment = look["environment"]
        assert environment["AGENTOS_RUN_ID"] == sandbox.run_dirs()[0].name
        assert environment["AGENTOS_HOME"] == str(sandbox.home)
        assert environment["PATH"] == sandbox.environment["PATH"]
        assert environment["GIT_TERMINAL_PROMPT"] == "0"


def test_the_next_item_starts_when_one_ends_however_slow_its_neighbour_is(sandbox: Sandbox) -> None:
    sandbox.write_items(item("slow", n1="wait go"), *(item(f"quick{n}") for n in range(5)))
    run = sandbox.start("--parallel", "2")

    run.wait_for_record("item_ended", item="quick4")
    assert "slow n1 end" not in sandbox.notes()
    sandbox.release("go")

    assert run.wait().code == 0


def test_never_more_at_once_than_allowed_and_one_at_a_time_without_the_flag(sandbox: Sandbox) -> None:
    sandbox.write_items(*(item(f"i{n}") for n in range(5)))

    assert sandbox.run().code == 0

    starts_and_ends = [r for r in sandbox.records() if r["type"] in ("item_started", "item_ended")]
    assert [(r["item"], r["type"]) for r in starts_and_ends] == [
        (f"i{n}", kind) for n in range(5) for kind in ("item_started", "item_ended")
    ]


def test_an_idle_coordinator_and_fork_server_use_no_cpu(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n1="wait go"), item("b", n1="wait go"), item("c"))
    run = sandbox.start("--parallel", "2")
    sandbox.wait_for_note("a n1 start")
    sandbox.wait_for_note("b n1 start")
    run.wait_for_line("[b] >>> Executing")
    processes = [run.pid, run.fork_server()]

    before = [_work(pid) for pid in processes]
    time.sleep(2.0)  # Nothing to wait for: the measurement is of a stretch of time in which nothing happens.
    after = [_work(pid) for pid in processes]

    for (ticks_before, wakeups_before), (ticks_after, wakeups_after) in zip(before, after, strict=True):
        assert ticks_after - ticks_before <= 2  # Hundredths of a second, over two seconds.
        assert wakeups_after - wakeups_before <= 12
    sandbox.release("go")
    assert run.wait().code == 0


def _work(pid: int) -> tuple[int, int]:
    """CPU ticks used, and how often it woke up of its own accord."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields[11]) + int(fields[12]), int(status["voluntary_ctxt_switches"])


def test_a_crashed_item_is_retried_from_its_checkpoint_and_a_failed_one_is_not(sandbox: Sandbox) -> None:
    sandbox.write_items(
        item("crashes", n2="crash_once c"), item("fails", n2="fail_once f"), item("hopeless", n1="kill 9")
    )

    done = sandbox.run("--retry", "2", "--parallel", "2")

    assert done.code == 1
    assert sandbox.outcomes() == {"crashes": "completed", "fails": "failed", "hopeless": "failed"}
    assert [n for n in sandbox.notes() if n.startswith("crashes")] == [
        "crashes n1 start",
        "crashes n1 end",
        "crashes n2 start",
        "crashes n2 start",
        "crashes n2 end",
        "crashes n3 start",
        "crashes n3 end",
    ]
    retried = [(r["item"], r["attempt"]) for r in of_type(sandbox.records(), "item_retried")]
    assert sorted(retried) == [("crashes", 1), ("hopeless", 1), ("hopeless", 2)]
    assert sandbox.endings()["hopeless"]["attempts"] == 3
    assert "[crashes] attempt 1 failed: worker killed by signal 9" in done.stdout


def test_a_timed_out_item_is_retried_too(sandbox: Sandbox) -> None:
    sandbox.write_items(item("slow", n1="sleep 600"))

    done = sandbox.run("--retry", "1", "--timeout-seconds", "0.3")

    assert done.code == 1
    assert [r["reason"] for r in of_type(sandbox.records(), "item_retried")] == ["timed out after 0.3 s"]
    ending = sandbox.endings()["slow"]
    assert (ending["error_type"], ending["attempts"]) == ("TimedOut", 2)


@pytest.mark.every_backend
def test_children_of_a_killed_worker_die_with_it(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n1="leave_child 600", n2="kill 9"), item("b"))

    done = sandbox.run()

    assert done.code == 1
    assert sandbox.outcomes() == {"a": "failed", "b": "completed"}
    assert of_type(sandbox.records(), "children_leaked", "a")
    assert processes_with("AGENTOS_HOME", sandbox.home) == []


def test_a_worker_that_cannot_even_begin_says_why_in_its_items_log(sandbox: Sandbox) -> None:
    sandbox.write_items(item("removes", n3="remove_project"), item("after"))
    place = sandbox.root / "place"
    place.mkdir()

    # Fresh items have no worker made ahead of time, which would be in the folder already.
    assert sandbox.run("--fresh", "--project", str(place), env={"PLACE": str(place)}).code == 1

    assert sandbox.outcomes() == {"removes": "completed", "after": "failed"}
    [run_dir] = sandbox.run_dirs()
    assert f"No such file or directory: '{place}'" in (run_dir / "after.log").read_text()


@pytest.mark.every_backend
def test_children_of_workers_die_with_a_killed_fork_server(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n1="leave_nameless_child 60", n2="kill_once server killed"))

    done = sandbox.run()

    assert done.code == 0, done
    [child] = [note.split()[1] for note in sandbox.notes() if note.startswith("nameless")]
    assert not Path(f"/proc/{child}").exists()
