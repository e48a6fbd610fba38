"""How an item can end, and what follows from it: for its dependents, for the next run, for the exit code. Pure.

Records hold the names; whoever reads one gets the outcome with `outcome_named`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentos.errors import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """How an item ended. Without any of the flags: done, and well."""

    name: str
    """As in records, in `--json`, and as a graph gives it."""
    meaning: str
    """For the glossary."""
    words: str = ""
    """Of one item, when they are not its name: `1 needs revision`."""
    plural: str = ""
    """Of several, when that differs: `2 need revision`."""
    clause: str = ""
    """After a name, when the words cannot stand there: `dependency a1 was skipped`."""
    is_failure: bool = False
    needs_person: bool = False
    """Nothing failed, but somebody has to do something."""
    is_unfinished: bool = False
    """The same command has something left to do."""
    is_as_asked: bool = False
    """Unfinished, and the run was not to go further: that is a good end."""
    is_engines_own: bool = False
    """Only the engine can say it: a graph that ran to its end is none of it."""
    never_ran: bool = False

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def is_done(self) -> bool:
        """Done well enough for its dependents to start."""
        return not (self.is_failure or self.needs_person or self.is_unfinished)

    @property
    def is_left(self) -> bool:
        """Neither done nor failed nor anybody's turn: a later run continues it, and this one does not count it."""
        return self.is_unfinished and not (self.is_failure or self.needs_person or self.is_as_asked)

    @property
    def exit_code(self) -> ExitCode:
        """Of a run of this item alone."""
        if self.is_failure:
            return ExitCode.ITEM_FAILED
        if self.needs_person:
            return ExitCode.NEEDS_ATTENTION
        return ExitCode.INTERRUPTED if self.is_left else ExitCode.OK

    def in_words(self, number: int = 1) -> str:
        """As people say it, of one item or of several."""
        singular = self.words or self.name.replace("_", " ")
        return singular if number == 1 else self.plural or singular

    def as_clause(self) -> str:
        """As people say it after the item's name."""
        return self.clause or self.words or f"ended as {self.in_words()}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GraphOutcome(Outcome):
    """A word that a graph chose for itself, in its state key `outcome`. It is a good one."""

    meaning: str = "whatever the graph means by it"


APPROVED: Final = Outcome(name="approved", meaning="the document passed its review and is in place")
COMPLETED: Final = Outcome(name="completed", meaning="the graph ran to its end and gave no outcome of its own")
IMPLEMENTED: Final = Outcome(name="implemented", meaning="the design is code on a branch, and its tests pass")
REHEARSED: Final = Outcome(
    name="rehearsed", meaning="the offline model answered: the way was tried, and no work was done"
)
NEEDS_REVISION: Final = Outcome(
    name="needs_revision",
    meaning="the work is done as far as it goes; its findings need you",
    words="needs revision",
    plural="need revision",
    needs_person=True,
)
AWAITING_REVIEW: Final = Outcome(
    name="awaiting_review",
    meaning="parked at a gate until `agentos review` answers",
    words="awaits review",
    plural="await review",
    needs_person=True,
    is_unfinished=True,
    is_engines_own=True,
)
PAUSED: Final = Outcome(
    name="paused",
    meaning="held before a node until `agentos ws resume`",
    clause="is paused",
    needs_person=True,
    is_unfinished=True,
    is_engines_own=True,
)
AS_ASKED: Final = Outcome(
    name="as_asked",
    meaning="it went as far as its run was to go (`ws run --steps`); a run that goes further continues it",
    words="as far as asked",
    clause="went only as far as asked",
    is_unfinished=True,
    is_as_asked=True,
    is_engines_own=True,
)
FAILED: Final = Outcome(
    name="failed",
    meaning="an error, a crash, a time limit, or the graph said so; the checkpoint is kept",
    words="failed",
    is_failure=True,
    is_unfinished=True,
)
SKIPPED: Final = Outcome(
    name="skipped",
    meaning="not done: a dependency did not succeed, another run has the item, or somebody skipped it",
    clause="was skipped",
    is_failure=True,
    is_unfinished=True,
    is_engines_own=True,
    never_ran=True,
)
INTERRUPTED: Final = Outcome(
    name="interrupted",
    meaning="the run was stopped; the item is left for the next one, which continues it",
    clause="was interrupted",
    is_unfinished=True,
    is_engines_own=True,
)

GOOD_OUTCOMES: Final = (APPROVED, COMPLETED, IMPLEMENTED, REHEARSED)
OTHER_OUTCOMES: Final = (AS_ASKED, NEEDS_REVISION, AWAITING_REVIEW, PAUSED, FAILED, SKIPPED, INTERRUPTED)
OUTCOMES: Final = (*GOOD_OUTCOMES, *OTHER_OUTCOMES)
"""In the order people read them; the outcomes of users' graphs come after the good ones."""

_BY_NAME: Final = {outcome.name: outcome for outcome in OUTCOMES}
_PLACE: Final = {
    outcome: place + (outcome in OTHER_OUTCOMES)  # One place is kept free for the graphs' own.
    for place, outcome in enumerate(OUTCOMES)
}


def outcome_named(name: str) -> Outcome:
    """The outcome of this name: one of ours, else a graph's own."""
    return _BY_NAME.get(name) or GraphOutcome(name=name)


def in_reading_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The good ones first, then the graphs' own by name, then what needs somebody."""
    return sorted(outcomes, key=lambda outcome: (_PLACE.get(outcome, len(GOOD_OUTCOMES)), outcome.name))


class Cause(StrEnum):
    """Why an item ended as it did, where something follows from it. The words for people are its `reason`."""

    OTHER = ""
    EARLIER_RUN = "earlier_run"
    """An earlier run of the batch did it; this one did nothing."""
    HELD = "held"
    """Another run has it: it is skipped, and this one cannot say that it is done."""
    PERSON = "person"
    """Somebody said so while the run was under way."""
    DEPENDENCY = "dependency"
    """A dependency did not end well enough."""
    NO_USABLE_KEY = "no_usable_key"
    CANNOT_CONTINUE = "cannot_continue"
    """What an earlier run left of it does not fit any more: only starting over helps."""
    UNDECIDED = "undecided"
    """A person has to decide first."""
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"

    @classmethod
    def _missing_(cls, value: object) -> Cause:
        """A later version may know more."""
        return cls.OTHER


_GRAVEST_FIRST: Final = (
    ExitCode.INTERRUPTED,
    ExitCode.NO_USABLE_KEY,
    ExitCode.ITEM_FAILED,
    ExitCode.NEEDS_ATTENTION,
)


def item_exit_code(outcome: Outcome, cause: Cause = Cause.OTHER) -> ExitCode:
    """What one item's end makes of its run."""
    return ExitCode.NO_USABLE_KEY if cause is Cause.NO_USABLE_KEY else outcome.exit_code


def run_exit_code(item_codes: Collection[ExitCode], stop: ExitCode | None = None, *, has_left: bool) -> ExitCode:
    """The exit code of a run: of its items, what is left of them, and why it was stopped, if it was.

    A run that was interrupted with nothing left was not; one with items left never exits 0.
    """
    if stop is not None and (has_left or stop is not ExitCode.INTERRUPTED):
        return stop
    codes = {*item_codes, ExitCode.INTERRUPTED if has_left else ExitCode.OK}
    return next((code for code in _GRAVEST_FIRST if code in codes), ExitCode.OK)


def counts_by_name(counts: Mapping[Outcome, int]) -> dict[str, int]:
    """As records have them."""
    return {str(outcome): number for outcome, number in counts.items()}
