"""Whatever kind of graph a user brings: async, parallel, typed, with a gate for a human."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
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


@pytest.mark.parametrize("graph", ["at_import", "once_more", "for_each_item"])
def test_a_value_of_a_class_that_a_function_has_made_is_one_after_a_kill(sandbox: Sandbox, graph: str) -> None:
    _kill_while_waiting(sandbox, graph)

    assert sandbox.run(graph=f"graphs/local_classes.py:{graph}").code == 0

    assert sandbox.notes().count("a make start") == 1
    assert sandbox.notes()[-1] == "same kinds: True"


@pytest.mark.parametrize(
    ("graph", "why"), [("by_a_node", "<locals>.Passing of local_classes,"), ("with_a_lock", "saved only in part")]
)
def test_a_state_that_would_not_be_what_it_was_is_not_resumed(sandbox: Sandbox, graph: str, why: str) -> None:
    _kill_while_waiting(sandbox, graph)

    done = sandbox.run(graph=f"graphs/local_classes.py:{graph}")

    assert done.code == 1
    reason = sandbox.endings()["a"]["reason"]
    assert reason.startswith("the state after node 'make' holds a ")
    assert why in reason
    assert sandbox.notes()[-1] == "a wait start"  # of the run that was killed
    line = next(line for line in done.lines if "To start it over: " in line).partition(" over: ")[2]
    assert sandbox.start_command("-c", line, program=Path("/bin/sh")).wait().code == 0
    assert sandbox.notes()[-1] == "same kinds: True"


def _kill_while_waiting(sandbox: Sandbox, graph: str) -> None:
    sandbox.write_items(item("a", wait="wait go"))
    run = sandbox.start(graph=f"graphs/local_classes.py:{graph}")
    sandbox.wait_for_note("a wait start")
    run.kill()
    run.wait()
    sandbox.release("go")


def test_a_class_that_was_renamed_before_a_resume_is_missed(sandbox: Sandbox) -> None:
    module = sandbox.project / "renamed.py"
    module.write_text(_WITH_A_CLASS)
    sandbox.write_items(item("a", wait="wait go"))
    run = sandbox.start(graph="renamed.py:graph", env={"PYTHONPATH": "graphs"})
    sandbox.wait_for_note("a wait start")
    run.kill()
    run.wait()
    sandbox.release("go")
    module.write_text(_WITH_A_CLASS.replace("Plan", "Sketch"))

    done = sandbox.run(graph="renamed.py:graph", env={"PYTHONPATH": "graphs"})

    assert done.code == 1
    assert "holds a Plan of renamed, and there is no such class now" in sandbox.endings()["a"]["reason"]


def test_a_node_that_is_renamed_in_a_graph_that_a_node_calls_is_missed_at_every_resume(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", second="raise sour"))
    graph = "graphs/called_graph.py:graph"
    assert sandbox.run(graph=graph).code == 1

    refused = [sandbox.run(graph=graph, env={"SECOND": "renamed"}) for _ in range(2)]

    assert [done.code for done in refused] == [1, 1]
    assert all("the way to node 'call.second', where the item would resume, is gone" in d.stdout for d in refused)
    assert "a after start" not in sandbox.notes()
    sandbox.run(graph=graph)
    assert sandbox.endings()["a"]["reason"] == "sour"
    assert sandbox.notes().count("a first start") == 1


_WITH_A_CLASS = """
from typing import Any
from journal import step
from langgraph.graph import StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

class Plan(BaseModel):
    steps: list[str]

class State(TypedDict, total=False):
    tasks: dict[str, str]
    plan: Any

def make(state: State) -> dict[str, Any]:
    return {"plan": Plan(steps=["a"])}

def wait(state: State) -> dict[str, Any]:
    step("wait", state["tasks"])
    return {}

graph = StateGraph(State).add_sequence([make, wait]).set_entry_point("make").set_finish_point("wait")
"""
