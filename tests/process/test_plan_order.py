"""Priority, then dependencies, then the order of the input; what cannot run is skipped with its reason."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from harness import Sandbox, of_type


def started(sandbox: Sandbox) -> list[str]:
    return [record["item"] for record in of_type(sandbox.records(), "item_started")]


@pytest.mark.every_backend
def test_priority_goes_first_then_dependencies_then_input_order(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "plain1"},
        {"id": "needs-late", "depends_on": ["late"]},
        {"id": "low", "priority": -1},
        {"id": "plain2"},
        {"id": "late"},
        {"id": "urgent", "priority": 5, "depends_on": ["base"]},
        {"id": "base"},
        {"id": "high", "priority": 3},
    )

    assert sandbox.run().code == 0

    # `base` is as urgent as what needs it.
    expected = ["base", "urgent", "high", "plain1", "plain2", "late", "needs-late", "low"]
    assert started(sandbox) == expected
    dry = json.loads(sandbox.run("--dry-run", "--json").stdout)
    assert [entry["id"] for entry in dry["items"]] == expected


def test_a_dependent_starts_only_after_its_dependencies_have_ended_well(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "top", "depends_on": ["left", "right"]},
        {"id": "left", "depends_on": ["bottom"]},
        {"id": "right", "depends_on": ["bottom"]},
        {"id": "bottom"},
        {"id": "alone"},
    )

    assert sandbox.run("--parallel", "4").code == 0

    notes = sandbox.notes()
    for before, after in (("bottom", "left"), ("bottom", "right"), ("left", "top"), ("right", "top")):
        assert notes.index(f"{before} n3 end") < notes.index(f"{after} n1 start")


@pytest.mark.every_backend
def test_what_depends_on_a_failure_is_skipped_with_that_reason_and_nothing_else_is(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "bad", "input": {"tasks": {"n1": "raise no good"}}},
        {"id": "child", "depends_on": ["bad", "other"]},
        {"id": "grandchild", "depends_on": ["child"]},
        {"id": "other"},
        {"id": "crashed", "input": {"tasks": {"n1": "kill 9"}}},
        {"id": "after-crash", "depends_on": ["crashed"]},
    )

    done = sandbox.run("--parallel", "2")

    assert done.code == 1
    reasons = {item: r["reason"] for item, r in sandbox.endings().items() if r["outcome"] == "skipped"}
    assert reasons == {
        "child": "dependency bad failed",
        "grandchild": "dependency child was skipped",
        "after-crash": "dependency crashed failed",
    }
    assert "[child] skipped: dependency bad failed" in done.lines
    assert sandbox.endings()["child"]["attempts"] == 0
    assert sandbox.outcomes()["other"] == "completed"
    assert not [note for note in sandbox.notes() if note.startswith(("child", "grandchild", "after-crash"))]


def test_a_cycle_is_named_and_refused_before_anything_starts(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "a", "depends_on": ["b"]},
        {"id": "b", "depends_on": ["c"]},
        {"id": "c", "depends_on": ["a"]},
        {"id": "d"},
    )

    done = sandbox.run()

    assert done.code == 2
    assert "a -> b -> c -> a" in done.stderr
    assert not sandbox.home.exists()


def test_ids_and_globs_select_in_the_order_of_the_file(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": name} for name in ("b2", "a1", "b1", "c1", "a2")))

    assert sandbox.run("c1", "b*", "a2", "b1", "c1").code == 0

    assert started(sandbox) == ["b2", "b1", "c1", "a2"]


def test_a_dependency_that_was_not_selected_counts_as_done(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b", "depends_on": ["a"]})

    assert sandbox.run("b").code == 0

    assert sandbox.outcomes() == {"b": "completed"}


def test_items_come_from_standard_input_too_and_equal_duplicates_merge(sandbox: Sandbox) -> None:
    odd = '{"id": "odd", "input": {"reason": "one\u2028two\x85three"}}'
    lines = '\ufeff{"id": "a", "input": {}}\r\n\r\n{"id": 7}\r\n' + odd + '\n{"input": {}, "id": "a"}'
    arguments = ["run", "--graph", "graphs/steps.py:graph", "--items", "-"]
    run = sandbox.start_command(*arguments, stdin=subprocess.PIPE)
    assert run.process.stdin is not None
    run.process.stdin.write(lines.encode())
    run.process.stdin.close()

    assert run.wait().code == 0
    assert sandbox.outcomes() == {"a": "completed", "7": "completed", "odd": "completed"}


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ({"a": "approved", "b": "completed"}, 0),
        ({"a": "approved", "b": "needs_revision"}, 3),
        ({"a": "needs_revision", "b": "failed"}, 1),
    ],
)
def test_the_states_outcome_key_is_the_outcome_and_decides_the_exit_code(
    sandbox: Sandbox, outcomes: dict[str, str], code: int
) -> None:
    sandbox.write_items(
        *({"id": i, "input": {"outcome": o, "reason": f"because {i}"}} for i, o in outcomes.items()),
        {"id": "after-a", "depends_on": ["a"], "input": {"outcome": "approved"}},
    )

    done = sandbox.run(graph="graphs/kinds.py:verdict")

    expected = {**outcomes, "after-a": "approved" if outcomes["a"] == "approved" else "skipped"}
    assert sandbox.outcomes() == expected
    assert sandbox.endings()["b"]["reason"] == "because b"
    assert done.code == (1 if "skipped" in expected.values() else code)
    kept = [name for name in sandbox.databases() if name.endswith(".db")]
    assert kept == [f"graphs-kinds-verdict_workflow_{i}.db" for i, o in outcomes.items() if o == "failed"]
    summary: dict[str, Any] = json.loads((sandbox.run_dirs()[0] / "summary.json").read_text())
    assert summary["exit_code"] == done.code


def test_a_graph_cannot_pass_off_a_word_of_the_engines_own_as_its_outcome(sandbox: Sandbox) -> None:
    words = ("interrupted", "skipped", "paused", "awaiting_review")
    sandbox.write_items(*({"id": word, "input": {"outcome": word}} for word in words))

    done = sandbox.run("--parallel", "2", graph="graphs/kinds.py:verdict")

    assert done.code == 1
    assert sandbox.outcomes() == dict.fromkeys(words, "failed")
    assert "'paused' as its outcome" in sandbox.endings()["paused"]["reason"]


def test_an_item_does_not_run_as_if_what_it_depends_on_had_succeeded(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "bad", "input": {"tasks": {"n2": "fail_once first"}}},
        {"id": "child", "depends_on": ["bad"]},
    )
    assert sandbox.run().code == 1
    refused = sandbox.run("child")
    run = sandbox.run_dirs()[0].name
    assert (refused.code, refused.stdout) == (2, "")
    assert f"child depends on bad, which failed in run {run}. Name both to run that first, or give" in refused.stderr
    assert sandbox.run("child", "--ignore-dependencies").code == 0
    assert sandbox.run("bad", "child", "--fresh").code == 0
    assert sandbox.run("child").code == 0, "it has succeeded since"


def test_a_document_of_another_item_is_not_replaced_by_a_later_run(sandbox: Sandbox) -> None:
    (sandbox.project / "writer.py").write_text(WRITER)
    sandbox.write_items({"id": "a"}, {"id": "b"})
    assert sandbox.run("a", graph="writer.py:graph").code == 0
    refused = sandbox.run("b", graph="writer.py:graph")
    assert refused.code == 1
    document = sandbox.project / "report.md"
    assert f"{document} is the document of item a and stays so; b needs a path of its own" in refused.stdout
    assert document.read_text() == "by a"
    assert sandbox.command("open", "a").lines == [str(document)]
    assert sandbox.run("a", "--fresh", graph="writer.py:graph").code == 0
    document.unlink()
    assert sandbox.run("b", graph="writer.py:graph").code == 0
    assert document.read_text() == "by b"


WRITER = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

import os

from agentos import outputs


class State(TypedDict, total=False):
    text: str


def write(state):
    outputs.write("report.md", f"by {os.environ['AGENTOS_ITEM_ID']}")
    return {"text": "written"}


graph = StateGraph(State)
graph.add_node("write", write)
graph.add_edge(START, "write")
graph.add_edge("write", END)
"""
