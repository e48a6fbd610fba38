"""Whatever kind of graph a user brings: async, parallel, typed, with a gate for a human."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from harness import Sandbox, eventually, of_type


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


@pytest.mark.parametrize("kind", ["parallel", "asynchronous"])
def test_of_nodes_in_one_step_only_the_one_in_flight_runs_again_after_a_kill(sandbox: Sandbox, kind: str) -> None:
    graph = f"graphs/kinds.py:{kind}"
    sandbox.write_items(item("a", right="wait go"), item("b"))
    run = sandbox.start("--retry", "1", graph=graph)
    run.wait_for_line("[a] >>> Executing: right")
    worker = run.wait_for_record("item_started", item="a")["pid"]
    eventually(lambda: _resumes_after(sandbox, graph) == "left", "left's result on disk")

    os.kill(worker, signal.SIGKILL)
    sandbox.release("go")

    assert run.wait().code == 0
    notes = sandbox.notes()
    assert [notes.count(f"a {node} start") for node in ("first", "left", "right")] == [1, 1, 2]
    assert "a trail first left right" in notes
    assert {r["node"] for r in of_type(sandbox.records(), "node_finished", "b")} == {"first", "left", "right", "tell"}


def _resumes_after(sandbox: Sandbox, graph: str) -> str:
    dry = json.loads(sandbox.run("a", "--dry-run", "--json", graph=graph).stdout)
    return str(dry["items"][0]["resumes_after"])


def test_a_failing_async_node_fails_its_item_with_its_own_traceback(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", left="raise sour"), item("b"))

    assert sandbox.run(graph="graphs/kinds.py:asynchronous").code == 1

    assert sandbox.outcomes() == {"a": "failed", "b": "completed"}
    ending = sandbox.endings()["a"]
    assert (ending["error_type"], ending["reason"]) == ("ValueError", "sour")
    assert "journal.py" in ending["traceback"]


def test_what_has_to_be_awaited_may_be_anywhere_in_the_graph(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"))

    done = sandbox.run(graph="graphs/kinds.py:awaited_in_parts")

    assert done.code == 0, done.stdout
    assert [note for note in sandbox.notes() if note.endswith(" end")] == [
        "a first end",
        "a deep end",
        "a chained end",
    ]


def test_a_pydantic_state_is_validated_and_an_invalid_input_fails_its_item_alone(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "good", "input": {"count": 1}}, {"id": "bad", "input": {"count": "many"}})

    assert sandbox.run(graph="graphs/kinds.py:typed").code == 1

    assert sandbox.outcomes() == {"good": "counted-2", "bad": "failed"}
    ending = sandbox.endings()["bad"]
    assert ending["error_type"] == "ValidationError"
    assert "count" in ending["reason"]


def test_an_interrupt_parks_the_item_for_review_and_keeps_its_database(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"), item("b"))

    first = sandbox.run("--parallel", "2", graph="graphs/kinds.py:gate")

    assert first.code == 3
    assert sandbox.outcomes() == {"a": "awaiting_review", "b": "awaiting_review"}
    assert len([name for name in sandbox.databases() if name.endswith(".db")]) == 2

    again = sandbox.run("a", graph="graphs/kinds.py:gate")

    assert again.code == 3
    assert sandbox.notes().count("a draft start") == 1


def test_a_state_that_cannot_be_saved_fails_its_item_and_not_the_run(sandbox: Sandbox) -> None:
    sandbox.write_items(item("bad", odd="yes"), {"id": "good"})

    done = sandbox.run(graph="graphs/kinds.py:unsaveable")

    assert done.code == 1
    assert "FAULT" not in done.stdout
    assert sandbox.outcomes() == {"bad": "failed", "good": "completed"}
