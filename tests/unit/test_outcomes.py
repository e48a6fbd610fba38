"""Each outcome's consequences, the exit codes of runs (SPEC A6), and the docs that tell of both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentos.errors import ExitCode
from agentos.outcomes import (
    APPROVED,
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    IMPLEMENTED,
    INTERRUPTED,
    NEEDS_REVISION,
    OUTCOMES,
    PAUSED,
    SKIPPED,
    Cause,
    GraphOutcome,
    Outcome,
    in_reading_order,
    item_exit_code,
    outcome_named,
    run_exit_code,
)

DOCS_DIR = Path(__file__).parents[2] / "docs"
PUBLISHED = outcome_named("published")

Code = ExitCode


@pytest.mark.parametrize(
    ("outcome", "code", "is_done", "is_left"),
    [
        (APPROVED, Code.OK, True, False),
        (COMPLETED, Code.OK, True, False),
        (IMPLEMENTED, Code.OK, True, False),
        (PUBLISHED, Code.OK, True, False),
        (NEEDS_REVISION, Code.NEEDS_ATTENTION, False, False),
        (AWAITING_REVIEW, Code.NEEDS_ATTENTION, False, False),
        (PAUSED, Code.NEEDS_ATTENTION, False, False),
        (FAILED, Code.ITEM_FAILED, False, False),
        (SKIPPED, Code.ITEM_FAILED, False, False),
        (INTERRUPTED, Code.INTERRUPTED, False, True),
    ],
    ids=str,
)
def test_what_follows_from_an_outcome(outcome: Outcome, code: ExitCode, is_done: bool, is_left: bool) -> None:
    assert (outcome.exit_code, outcome.is_done, outcome.is_left) == (code, is_done, is_left)


def test_an_outcome_is_known_by_its_name_and_any_other_word_is_the_graphs_own() -> None:
    assert [outcome_named(outcome.name) for outcome in OUTCOMES] == list(OUTCOMES)
    assert outcome_named("published") == GraphOutcome(name="published")


def test_people_read_the_good_ones_first_and_the_graphs_own_next() -> None:
    mixed = [INTERRUPTED, FAILED, PUBLISHED, PAUSED, outcome_named("archived"), COMPLETED]
    assert in_reading_order(mixed) == [COMPLETED, outcome_named("archived"), PUBLISHED, PAUSED, FAILED, INTERRUPTED]


@pytest.mark.parametrize(
    ("outcome", "clause"),
    [
        (FAILED, "failed"),
        (SKIPPED, "was skipped"),
        (NEEDS_REVISION, "needs revision"),
        (AWAITING_REVIEW, "awaits review"),
        (PAUSED, "is paused"),
        (PUBLISHED, "ended as published"),
    ],
    ids=str,
)
def test_what_is_said_of_a_dependency(outcome: Outcome, clause: str) -> None:
    assert outcome.as_clause() == clause


def test_a_cause_of_a_later_version_is_just_another_cause() -> None:
    assert Cause("struck_by_lightning") is Cause.OTHER


@pytest.mark.parametrize(
    ("ends", "stop", "has_left", "code"),
    [
        ([], None, False, Code.OK),
        ([(COMPLETED,), (APPROVED,), (PUBLISHED,)], None, False, Code.OK),
        ([(COMPLETED,), (FAILED,)], None, False, Code.ITEM_FAILED),
        ([(COMPLETED,), (SKIPPED, Cause.DEPENDENCY)], None, False, Code.ITEM_FAILED),
        ([(COMPLETED,), (SKIPPED, Cause.HELD)], None, False, Code.ITEM_FAILED),
        ([(COMPLETED,), (NEEDS_REVISION,)], None, False, Code.NEEDS_ATTENTION),
        ([(AWAITING_REVIEW,)], None, False, Code.NEEDS_ATTENTION),
        ([(PAUSED,)], None, False, Code.NEEDS_ATTENTION),
        ([(NEEDS_REVISION,), (FAILED,)], None, False, Code.ITEM_FAILED),
        ([(FAILED,), (FAILED, Cause.NO_USABLE_KEY)], None, False, Code.NO_USABLE_KEY),
        ([(FAILED, Cause.TIMED_OUT)], None, False, Code.ITEM_FAILED),
        # A stop says why there are items left; a fault of the run is a stop with code 1.
        ([(COMPLETED,), (INTERRUPTED,)], Code.INTERRUPTED, True, Code.INTERRUPTED),
        ([(FAILED,), (INTERRUPTED,)], Code.INTERRUPTED, True, Code.INTERRUPTED),
        ([(FAILED, Cause.NO_USABLE_KEY)], Code.QUOTA_GONE, True, Code.QUOTA_GONE),
        ([(COMPLETED,)], Code.BUDGET_REACHED, True, Code.BUDGET_REACHED),
        ([(COMPLETED,)], Code.BUDGET_REACHED, False, Code.BUDGET_REACHED),
        ([(COMPLETED,)], Code.ITEM_FAILED, False, Code.ITEM_FAILED),
        # Interrupted when there was nothing left to interrupt.
        ([(COMPLETED,)], Code.INTERRUPTED, False, Code.OK),
        ([(FAILED,)], Code.INTERRUPTED, False, Code.ITEM_FAILED),
        # Whatever the reason, a run with items left does not exit 0.
        ([(COMPLETED,)], None, True, Code.INTERRUPTED),
    ],
)
def test_the_exit_code_of_a_run(
    ends: list[tuple[Outcome] | tuple[Outcome, Cause]], stop: ExitCode | None, has_left: bool, code: ExitCode
) -> None:
    assert run_exit_code([item_exit_code(*end) for end in ends], stop, has_left=has_left) is code


# The docs.


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The body of the table whose first column has this heading."""
    text = (DOCS_DIR / page).read_text(encoding="utf-8")
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"{page} has no table of {heading}"
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table[1].splitlines()]


def test_the_glossary_lists_every_outcome_with_what_follows_from_it() -> None:
    def row(outcome: Outcome) -> list[str]:
        again = "continues it" if outcome.is_unfinished else "does not repeat it"
        return [f"`{outcome.name}`", outcome.meaning, again, str(int(outcome.exit_code))]

    graphs_own = ["any other word", GraphOutcome(name="").meaning, "does not repeat it", "0"]
    expected = [row(outcome) for outcome in OUTCOMES]
    expected.insert(sum(outcome.is_done for outcome in OUTCOMES), graphs_own)
    assert rows_of("glossary.md", "outcome") == expected


def test_every_exit_code_is_documented() -> None:
    assert [int(code) for code, *_ in rows_of("reference/exit-codes.md", "code")] == sorted(map(int, ExitCode))
