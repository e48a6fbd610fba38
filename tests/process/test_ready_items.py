"""The next item is made ready while others run: its place is used at once, and nobody sees it before its turn."""

from __future__ import annotations

import os
import signal

from harness import Sandbox, Started, children_of, eventually, no_process_left, of_type


def start_with_one_waiting(sandbox: Sandbox, *more: str) -> tuple[Started, int]:
    """`a` is at work and `b` is ready. Returns the pid of `b`'s worker as well."""
    sandbox.write_items({"id": "a", "input": {"tasks": {"n1": "wait go"}}}, {"id": "b", "input": {}})
    started = sandbox.start("--parallel", "1", *more)
    at_work = started.wait_for_record("item_started", item="a")["pid"]
    return started, _other_worker(started, at_work)


def _other_worker(started: Started, at_work: int) -> int:
    server = started.fork_server()
    return eventually(lambda: next((p for p in children_of(server) if p != at_work), 0), "a worker made ready")


def test_a_ready_item_starts_in_its_turn_in_the_process_made_for_it(sandbox: Sandbox) -> None:
    started, ready = start_with_one_waiting(sandbox)
    eventually(lambda: len(sandbox.databases()) > 3, "the database of b")
    assert not of_type(sandbox.records(), "item_started", "b")
    assert not [line for line in started.stdout().splitlines() if line.startswith("[b]")]
    sandbox.release("go")
    assert started.wait().code == 0
    found = sandbox.records()
    assert of_type(found, "item_started", "b")[0]["pid"] == ready
    order = [(r["type"], r["item"]) for r in found if r["type"] in ("item_started", "item_ended")]
    assert order == [("item_started", "a"), ("item_ended", "a"), ("item_started", "b"), ("item_ended", "b")]
    assert sandbox.notes().index("b n1 start") > sandbox.notes().index("a n3 end")
    assert sandbox.databases() == []


def test_a_ready_worker_that_is_killed_costs_its_item_nothing(sandbox: Sandbox) -> None:
    started, ready = start_with_one_waiting(sandbox)
    server = started.fork_server()
    os.kill(ready, signal.SIGKILL)
    eventually(lambda: ready not in children_of(server), "the end of the ready worker")
    sandbox.release("go")
    assert started.wait().code == 0
    assert sandbox.outcomes() == {"a": "completed", "b": "completed"}
    assert [r["attempt"] for r in of_type(sandbox.records(), "item_started", "b")] == [1]


def test_a_stop_drops_what_is_ready_without_a_trace(sandbox: Sandbox) -> None:
    started, _ready = start_with_one_waiting(sandbox)
    started.kill(signal.SIGINT)
    assert started.wait().code == 130
    no_process_left(sandbox.home)
    assert [name for name in sandbox.databases() if "workflow_b." in name] == []
    assert of_type(sandbox.records(), "run_ended")[0]["left"] == ["a", "b"]
    sandbox.release("go")
    assert sandbox.run("--parallel", "1").code == 0
    assert sandbox.notes().count("b n1 start") == 1


def test_what_is_wrong_with_a_ready_item_is_told_in_its_turn(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "b", "input": {"tasks": {"n2": "raise no"}}})
    assert sandbox.run().code == 1
    # `b` has a checkpoint of another input now.
    started, ready = start_with_one_waiting(sandbox)
    server = started.fork_server()
    eventually(lambda: ready not in children_of(server), "the end of the ready worker")
    assert not of_type(sandbox.records()[1:], "item_started", "b")[1:]
    sandbox.release("go")
    assert started.wait().code == 1
    assert sandbox.outcomes() == {"a": "completed", "b": "failed"}
    assert "input has changed" in sandbox.endings()["b"]["reason"]
    order = [r["item"] for r in of_type(sandbox.records(), "item_ended")]
    assert order == ["b", "a", "b"]


def test_with_fresh_a_checkpoint_is_kept_until_its_item_starts(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "b", "input": {"tasks": {"n2": "raise no"}}})
    assert sandbox.run().code == 1
    kept = sandbox.databases()
    sandbox.write_items({"id": "a", "input": {"tasks": {"n1": "wait go"}}}, {"id": "b", "input": {}})
    started = sandbox.start("--parallel", "1", "--fresh")
    sandbox.wait_for_note("a n1 start")
    started.kill(signal.SIGINT)
    assert started.wait().code == 130
    assert [name for name in sandbox.databases() if "workflow_b." in name] == kept
