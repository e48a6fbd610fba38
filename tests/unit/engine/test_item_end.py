"""Every way an item can end, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.engine.item_end import GivenUp, Hold, decide_end, without_documents
from agentos.engine.messages import ItemDone, ItemFailed, ItemStopped
from agentos.engine.schedule import Ending
from agentos.outcomes import (
    AS_ASKED,
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    OUTCOMES,
    PAUSED,
    Cause,
    Outcome,
    outcome_named,
)


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
    assert (end.outcome, end.ending, end.has_succeeded) == (outcome_named(outcome), ending, True)
    assert end.outputs == ("/p/a.md",)


def test_a_graph_that_says_it_failed_publishes_nothing_and_keeps_its_checkpoint() -> None:
    end = decide_end(done("failed", reason="no luck"), 0)
    assert (end.outcome, end.reason, end.outputs, end.has_succeeded) == (FAILED, "no luck", (), False)


@pytest.mark.parametrize("outcome", [each for each in OUTCOMES if each.is_engines_own], ids=str)
def test_a_graph_cannot_say_what_only_the_engine_knows(outcome: Outcome) -> None:
    end = decide_end(done(outcome.name), 0)
    assert (end.outcome, end.ending, end.has_succeeded) == (FAILED, Ending.NOT_DONE, False)
    assert f"{outcome.name!r}" in end.reason


def test_a_parked_item_awaits_review_and_keeps_its_checkpoint() -> None:
    end = decide_end(done("whatever", is_parked=True), 0)
    assert (end.outcome, end.ending, end.has_succeeded) == (AWAITING_REVIEW, Ending.NOT_DONE, False)


def test_what_a_worker_said_counts_more_than_how_it_died() -> None:
    assert decide_end(done(), -9, is_stopping=True).outcome == COMPLETED
    assert decide_end(failed(), 0).error_type == "ValueError"


def test_a_checkpoint_that_cannot_be_written_is_the_runs_fault_and_the_item_is_left() -> None:
    end = decide_end(failed(is_run_fault=True), 0)
    assert (end.outcome, end.ending, end.is_run_fault) == (INTERRUPTED, Ending.INTERRUPTED, True)


def test_no_usable_key_is_noticed() -> None:
    assert decide_end(failed(cause="no_usable_key"), 0).cause is Cause.NO_USABLE_KEY
    assert decide_end(failed(), 0).cause is Cause.OTHER
    assert decide_end(failed(cause="held"), 0).cause is Cause.OTHER, "only the engine knows of other runs"


def test_a_stopped_item_is_left() -> None:
    assert decide_end(ItemStopped(), 0).ending is Ending.INTERRUPTED
    assert decide_end(None, -9, is_stopping=True).outcome == INTERRUPTED


def test_a_held_item_is_paused_unless_the_run_stops_anyway() -> None:
    assert decide_end(ItemStopped(), 0, held=Hold("paused by ws")).outcome == PAUSED
    assert decide_end(ItemStopped(), 0, held=Hold("before n2", is_as_asked=True)).outcome == AS_ASKED
    assert decide_end(ItemStopped(), 0, held=Hold("paused by ws"), is_stopping=True).outcome == INTERRUPTED


def test_an_item_lost_with_the_fork_server_goes_on_without_using_up_an_attempt() -> None:
    end = decide_end(None, None)
    assert (end.outcome, end.ending) == (None, Ending.LOST)


TIMED_OUT = GivenUp(Cause.TIMED_OUT, "no words that anything could be decided by")
STALLED = GivenUp(Cause.STALLED, "timed out, one could think")


@pytest.mark.parametrize(
    ("exit_code", "given_up", "cause", "error_type", "words"),
    [
        (-9, None, Cause.CRASHED, "Crashed", "SIGKILL"),
        (-11, None, Cause.CRASHED, "Crashed", "SIGSEGV"),
        (-250, None, Cause.CRASHED, "Crashed", "unknown"),
        (3, None, Cause.CRASHED, "Crashed", "status 3"),
        (-9, TIMED_OUT, Cause.TIMED_OUT, "TimedOut", TIMED_OUT.reason),
        (-9, STALLED, Cause.STALLED, "Stalled", STALLED.reason),
    ],
)
def test_a_crash_fails_the_item_by_name(
    exit_code: int, given_up: GivenUp | None, cause: Cause, error_type: str, words: str
) -> None:
    end = decide_end(None, exit_code, given_up=given_up)
    assert (end.outcome, end.cause, end.error_type, end.ending) == (FAILED, cause, error_type, Ending.CRASHED)
    assert words in end.reason


def test_a_crash_with_attempts_left_is_repeated_but_not_while_stopping() -> None:
    assert decide_end(None, -9, may_retry=True).outcome is None
    assert decide_end(None, -9, given_up=TIMED_OUT, may_retry=True, is_stopping=True).outcome == FAILED


def test_documents_that_cannot_be_put_into_place_fail_the_item() -> None:
    end = without_documents(decide_end(done(), 0), "cannot write a.md: no space")
    assert (end.outcome, end.has_succeeded, end.ending) == (FAILED, False, Ending.NOT_DONE)
