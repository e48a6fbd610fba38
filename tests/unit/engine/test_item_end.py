"""Every way an item can end, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.engine.item_end import decide_end, without_documents
from agentos.engine.messages import ItemDone, ItemFailed, ItemStopped
from agentos.engine.schedule import Ending


def done(outcome: str = "completed", **changes: Any) -> ItemDone:
    return ItemDone(**({"outcome": outcome, "reason": "", "finished": [], "outputs": ["/p/a.md"]} | changes))


def failed(**changes: Any) -> ItemFailed:
    return ItemFailed(**({"error_type": "ValueError", "message": "bad", "traceback": "T", "finished": []} | changes))


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        ("completed", Ending.DONE),
        ("approved", Ending.DONE),
        ("a word of their own", Ending.DONE),
        ("needs_revision", Ending.NOT_DONE),
    ],
)
def test_a_graph_that_came_to_its_end_publishes_and_needs_its_checkpoint_no_more(
    outcome: str, ending: Ending
) -> None:
    end = decide_end(done(outcome), 0)
    assert (end.outcome, end.ending, end.outputs, end.has_succeeded) == (outcome, ending, ("/p/a.md",), True)


def test_a_graph_that_says_it_failed_publishes_nothing_and_keeps_its_checkpoint() -> None:
    end = decide_end(done("failed", reason="no luck"), 0)
    assert (end.outcome, end.reason, end.outputs, end.has_succeeded) == ("failed", "no luck", (), False)


def test_a_parked_item_awaits_review_and_keeps_its_checkpoint() -> None:
    end = decide_end(done("whatever", is_parked=True), 0)
    assert (end.outcome, end.ending, end.has_succeeded) == ("awaiting_review", Ending.NOT_DONE, False)


def test_what_a_worker_said_counts_more_than_how_it_died() -> None:
    assert decide_end(done(), -9, is_stopping=True).outcome == "completed"
    assert decide_end(failed(), 0).error_type == "ValueError"


def test_a_checkpoint_that_cannot_be_written_is_the_runs_fault_and_the_item_is_left() -> None:
    end = decide_end(failed(is_run_fault=True), 0)
    assert (end.outcome, end.ending, end.is_run_fault) == ("interrupted", Ending.INTERRUPTED, True)


def test_no_usable_key_is_noticed() -> None:
    assert decide_end(failed(exit_code=4), 0).lacks_key
    assert not decide_end(failed(), 0).lacks_key


def test_a_stopped_item_is_left() -> None:
    assert decide_end(ItemStopped(), 0).ending is Ending.INTERRUPTED
    assert decide_end(None, -9, is_stopping=True).outcome == "interrupted"


def test_a_held_item_is_paused_unless_the_run_stops_anyway() -> None:
    assert decide_end(ItemStopped(), 0, held_because="paused by ws").outcome == "paused"
    assert decide_end(ItemStopped(), 0, held_because="paused by ws", is_stopping=True).outcome == "interrupted"


def test_an_item_lost_with_the_fork_server_goes_on_without_using_up_an_attempt() -> None:
    end = decide_end(None, None)
    assert (end.outcome, end.ending) == ("", Ending.LOST)


@pytest.mark.parametrize(
    ("exit_code", "because", "kind", "words"),
    [
        (-9, "", "Crashed", "SIGKILL"),
        (-11, "", "Crashed", "SIGSEGV"),
        (-250, "", "Crashed", "unknown"),
        (3, "", "Crashed", "status 3"),
        (-9, "timed out after 5 s", "TimedOut", "timed out"),
        (-9, "stalled: no sign of life for 60 s", "Stalled", "stalled"),
    ],
)
def test_a_crash_fails_the_item_by_name(exit_code: int, because: str, kind: str, words: str) -> None:
    end = decide_end(None, exit_code, ended_because=because)
    assert (end.outcome, end.error_type, end.ending) == ("failed", kind, Ending.CRASHED)
    assert words in end.reason


def test_a_crash_with_attempts_left_is_repeated_but_not_while_stopping() -> None:
    assert decide_end(None, -9, may_retry=True).outcome == ""
    assert decide_end(None, -9, ended_because="timed out", may_retry=True, is_stopping=True).outcome == "failed"


def test_documents_that_cannot_be_put_into_place_fail_the_item() -> None:
    end = without_documents(decide_end(done(), 0), "cannot write a.md: no space")
    assert (end.outcome, end.has_succeeded, end.ending) == ("failed", False, Ending.NOT_DONE)
