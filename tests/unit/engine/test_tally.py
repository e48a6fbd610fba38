"""What the ends of its items make of a run."""

from __future__ import annotations

import pytest

from agentos.engine.tally import Tally
from agentos.errors import ExitCode
from agentos.events import ItemEnded
from agentos.outcomes import COMPLETED, FAILED, INTERRUPTED, NEEDS_REVISION, PAUSED, SKIPPED, Cause, Outcome


def tally_of(causes: dict[str, Cause] | None = None, **outcomes: Outcome | None) -> Tally:
    tally = Tally(tuple(outcomes))
    for item_id, outcome in outcomes.items():
        if outcome:
            cause = (causes or {}).get(item_id, Cause.OTHER)
            tally.ended(ItemEnded(item_id=item_id, outcome=outcome, cause=cause, seconds=1.0))
    return tally


def test_the_gravest_end_decides() -> None:
    assert tally_of(a=COMPLETED, b=NEEDS_REVISION).exit_code(None) is ExitCode.NEEDS_ATTENTION
    assert tally_of(a=NEEDS_REVISION, b=FAILED).exit_code(None) is ExitCode.ITEM_FAILED


def test_items_that_were_skipped_are_not_done_whoever_has_them() -> None:
    assert tally_of({"b": Cause.HELD}, a=COMPLETED, b=SKIPPED).exit_code(None) is ExitCode.ITEM_FAILED
    assert tally_of({"b": Cause.DEPENDENCY}, a=COMPLETED, b=SKIPPED).exit_code(None) is ExitCode.ITEM_FAILED


def test_the_time_of_all_attempts_is_added_up() -> None:
    tally = tally_of()
    tally.attempt(1.0, 0.5)
    tally.attempt(2.0, 2.0)
    assert (tally.item_seconds, tally.working_seconds) == (3.0, 2.5)


def test_an_interrupted_run_never_ends_well_while_items_are_left() -> None:
    assert tally_of(a=COMPLETED, b=INTERRUPTED).exit_code(ExitCode.INTERRUPTED) is ExitCode.INTERRUPTED
    assert tally_of(a=COMPLETED, b=None).exit_code(ExitCode.INTERRUPTED) is ExitCode.INTERRUPTED
    assert tally_of(a=COMPLETED, b=COMPLETED).exit_code(ExitCode.INTERRUPTED) is ExitCode.OK


def test_what_is_left_is_told_in_plan_order_and_not_counted() -> None:
    tally = tally_of(a=INTERRUPTED, b=COMPLETED, c=None, d=FAILED)
    assert tally.left == ("a", "c")
    assert tally.counts == {COMPLETED: 1, FAILED: 1}


@pytest.mark.parametrize(
    ("outcome", "is_through"),
    [(COMPLETED, True), (NEEDS_REVISION, True), (FAILED, False), (PAUSED, False), (None, False)],
)
def test_a_batch_is_through_when_the_same_command_has_nothing_left_to_do(
    outcome: Outcome | None, is_through: bool
) -> None:
    assert tally_of(a=COMPLETED, b=outcome).is_through is is_through
