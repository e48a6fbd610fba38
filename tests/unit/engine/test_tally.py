"""What the ends of its items make of a run."""

from __future__ import annotations

import pytest

from agentos.engine.tally import Tally
from agentos.errors import ExitCode


def tally_of(held: tuple[str, ...] = (), **outcomes: str) -> Tally:
    tally = Tally(tuple(outcomes), held)
    for item_id, outcome in outcomes.items():
        if outcome:
            tally.ended(item_id, outcome)
    return tally


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ({"a": "completed", "b": "approved"}, ExitCode.OK),
        ({"a": "completed", "b": "failed"}, ExitCode.ITEM_FAILED),
        ({"a": "completed", "b": "skipped"}, ExitCode.ITEM_FAILED),
        ({"a": "needs_revision", "b": "failed"}, ExitCode.ITEM_FAILED),
        ({"a": "completed", "b": "needs_revision"}, ExitCode.NEEDS_ATTENTION),
        ({"a": "awaiting_review"}, ExitCode.NEEDS_ATTENTION),
        ({"a": "paused"}, ExitCode.NEEDS_ATTENTION),
        ({}, ExitCode.OK),
    ],
)
def test_the_worst_end_decides(outcomes: dict[str, str], code: ExitCode) -> None:
    assert tally_of(**outcomes).exit_code(None) is code


def test_items_that_another_run_has_are_no_failure() -> None:
    assert tally_of(held=("b",), a="completed", b="skipped").exit_code(None) is ExitCode.OK


def test_a_run_without_a_usable_key_says_so_first() -> None:
    tally = tally_of(a="failed")
    tally.attempt(1.0, lacks_key=True)
    tally.attempt(2.0, lacks_key=False)
    assert tally.exit_code(None) is ExitCode.NO_USABLE_KEY
    assert tally.item_seconds == 3.0


def test_an_interrupted_run_never_ends_well_while_items_are_left() -> None:
    assert tally_of(a="completed", b="interrupted").exit_code(ExitCode.INTERRUPTED) is ExitCode.INTERRUPTED
    assert tally_of(a="completed", b="").exit_code(ExitCode.INTERRUPTED) is ExitCode.INTERRUPTED
    assert tally_of(a="completed", b="completed").exit_code(ExitCode.INTERRUPTED) is ExitCode.OK
    assert tally_of(a="completed").exit_code(ExitCode.BUDGET_REACHED) is ExitCode.BUDGET_REACHED


def test_what_is_left_is_told_in_plan_order_and_not_counted() -> None:
    tally = tally_of(a="interrupted", b="completed", c="", d="failed")
    assert tally.left == ("a", "c")
    assert tally.counts == {"completed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("outcome", "is_through"),
    [("completed", True), ("needs_revision", True), ("failed", False), ("paused", False), ("", False)],
)
def test_a_batch_is_through_when_the_same_command_has_nothing_left_to_do(outcome: str, is_through: bool) -> None:
    assert tally_of(a="completed", b=outcome).is_through is is_through
