"""A parked item and a person's answer, in one process: the checkpoint, the claim and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from drafting_bench import ISSUE, Bench

from agentos.cli.main import main
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import claim_name, claims_of
from agentos.workflows import awaiting_review as waiting
from agentos.workflows.awaiting_review import NotAnswerable, give_answer, waiting_items

Step = Callable[[], Any]


@pytest.fixture
def go_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Step:
    """Runs LLD-7 as a worker would, to its end or to a gate. Returns its final state, or None when it parked."""
    from agentos.engine.graph import Continuation, Execution
    from agentos.workflows.lld.graph import graph

    monkeypatch.setenv("AGENTOS_REVIEW", "all")

    def run() -> Any:
        with closing(store_for(bench.project).open(ItemRef("lld", "7"))) as checkpoint:
            execution = Execution(graph.compile(), checkpoint)
            first = None if checkpoint.has_steps else bench.state(ISSUE, "7", "docs/issues/7-totals.md")
            execution.run(first, lambda _node: None, person=Continuation.of(checkpoint.standing))
            if execution.is_parked:
                checkpoint.park(execution.questions)
                return None
            return execution.final_state

    return run


def park(bench: Bench, workflow: str, item_id: str, question: Any) -> None:
    with closing(store_for(bench.project).open(ItemRef(workflow, item_id))) as checkpoint:
        checkpoint.park([question])


def test_a_person_decides_at_both_gates(bench: Bench, go_on: Step, capsys: pytest.CaptureFixture[str]) -> None:
    assert go_on() is None
    assert main(["review", "7", "--revise", "round the sums"]) == 0
    assert "[LLD-7] to be revised: round the sums; to continue, run: agentos lld 7" in capsys.readouterr().out
    assert go_on() is None
    assert "round the sums" in waiting_items(bench.project)[0].question["document"]
    assert main(["review", "LLD-7", "--approve", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"item": "LLD-7", "answer": {"action": "approve"}}
    assert go_on() is None
    assert main(["review", "LLD-7"]) == 0
    shown = capsys.readouterr().out
    assert "[LLD-7] The reviewer's verdict: approve" in shown
    assert main(["review", "LLD-7", "--approve"]) == 0
    state = go_on()
    assert (state["outcome"], state["decision"]) == ("approved", {"is_approval": True})
    assert [entry["verdict"] for entry in state["log"]] == ["revise", "approve", "approve", "approve"]


def test_a_later_answer_replaces_an_earlier_one(
    bench: Bench, go_on: Step, capsys: pytest.CaptureFixture[str]
) -> None:
    go_on()
    main(["review", "LLD-7", "--approve"])
    main(["review", "LLD-7", "--revise", "no, round the sums"])
    capsys.readouterr()
    main(["review"])
    assert capsys.readouterr().out.splitlines() == [
        "LLD-7  draft gate, round 1: to be revised: no, round the sums",
        "To continue what is answered, run: agentos lld 7",
    ]
    main(["review", "LLD-7"])
    assert (
        "Answered already (to be revised: no, round the sums); a new answer replaces it." in capsys.readouterr().out
    )


def test_an_item_in_the_hands_of_a_run_takes_no_answer(
    bench: Bench, go_on: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on()
    monkeypatch.setattr(waiting, "CLAIM_PATIENCE_SECONDS", 0.1)
    (item,) = waiting_items(bench.project)
    with claims_of(bench.project) as theirs:
        assert theirs.take(claim_name("lld", "7"))
        with pytest.raises(NotAnswerable, match="A run is working on LLD-7 now"):
            give_answer(bench.project, item, {"action": "approve"})


def test_an_item_that_went_on_takes_no_answer_to_an_old_question(bench: Bench, go_on: Step) -> None:
    go_on()
    (item,) = waiting_items(bench.project)
    give_answer(bench.project, item, {"action": "approve"})
    go_on()
    with pytest.raises(NotAnswerable, match="look again before you answer"):
        give_answer(bench.project, item, {"action": "approve"})
    store_for(bench.project).remove(ItemRef("lld", "7"))
    with pytest.raises(NotAnswerable, match="has continued and ended"):
        give_answer(bench.project, item, {"action": "approve"})


def test_graphs_of_ones_own_ask_anything_and_take_any_answer(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    park(bench, "flows-mine", "a1", "Which colour?")
    assert main(["review", "a1"]) == 0
    assert "Which colour?\n[a1] Answer with: agentos review a1 --answer '\"yes\"'" in capsys.readouterr().out
    assert main(["review", "a1", "--answer", '"green"']) == 0
    assert "to continue, run the same command again" in capsys.readouterr().out
    assert waiting_items(bench.project)[0].answer == "green"
    assert main(["review", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["workflow"] == "flows-mine"
    assert main(["review", "a1", "--answer", "null"]) == 2


def test_a_bare_id_that_two_workflows_share_needs_its_whole_name(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for workflow in ("lld", "issue"):
        park(bench, workflow, "7", {"gate": "draft"})
    assert main(["review", "7", "--approve"]) == 2
    assert "7 may be ISSUE-7, LLD-7: give the whole name." in capsys.readouterr().err


def test_nothing_waits(tmp_path: Path, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review"]) == 0
    assert capsys.readouterr().out == "Nothing waits for a review.\n"
    assert main(["review", "LLD-7"]) == 2
    assert "LLD-7 does not wait for a review. Nothing does" in capsys.readouterr().err
