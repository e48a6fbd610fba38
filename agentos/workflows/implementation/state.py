"""The state of a design on its way to tested code: what the run is given, and one record per stage."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypedDict

from agentos import outcomes
from agentos.documents.verdict import Review
from agentos.workflows.implementation.file_operations import Deviation
from agentos.workflows.implementation.judging import Round
from agentos.workflows.implementation.suite_plan import PlannedScenario
from agentos.workflows.implementation.suite_report import Reached, SuiteReport
from agentos.workflows.stage_records import latest

IMPLEMENTED: Final = outcomes.IMPLEMENTED.name
REHEARSED: Final = outcomes.REHEARSED.name
NEEDS_REVISION: Final = outcomes.NEEDS_REVISION.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Where the work starts from."""

    approval: str
    """Who approved the design and when, or that nobody did."""
    base: str
    """The branch or revision the item's branch starts from, as people name it."""
    commit: str
    branch: str
    folder: str
    """The project's folder in its repository; empty when it is the whole of it."""
    coverage_target: int
    suite: SuiteReport
    """The project's own tests before anything changed."""


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """What will be tested, and what the reviewer said each time it was planned."""

    scenarios: tuple[PlannedScenario, ...] = ()
    reviews: tuple[Review, ...] = ()
    reviewer: str = ""


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The tests, written before the code."""

    files: tuple[str, ...] = ()
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Red:
    """How the new tests did before the code."""

    words: str = ""
    run: SuiteReport | None = None
    passing_already: tuple[str, ...] = ()
    complaint: str = ""
    """What is wrong with the tests; empty when they fail as they should."""

    @property
    def seen_with_parameters(self) -> frozenset[str]:
        """Tests that were seen failing, each with its parameters: with others, or none, they ask something else."""
        return frozenset(case for case in self.run.failing if case.endswith("]")) if self.run else frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Green:
    """How a round of code did."""

    is_green: bool
    unverified: tuple[str, ...]
    coverage_percent: float | None
    by_file: Mapping[str, float]
    """Coverage of whole files."""
    by_change: Mapping[str, float] = field(default_factory=dict)
    """Of the lines and branches that the branch changed."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Lines that a file keeps from being measured."""
    new_tests: SuiteReport
    suite: SuiteReport | None
    former: SuiteReport | None = None
    """Tests that the branch changed, as they were before."""
    mutants: tuple[str, ...] = ()
    """Mistakes that were made in the changed lines to see whether the new tests notice."""
    mutants_noticed: int = 0
    unmoved: tuple[str, ...] = ()
    """New tests that passed with each of these mistakes."""
    reached: tuple[Reached, ...] = ()
    """What the branch's code reached for while tests ran."""
    weakness: str = ""
    """Why the new tests prove nothing: then more code does not help."""
    feedback: str = ""
    """What the next round is told."""


class ImplementationInput(TypedDict):
    item_id: str
    title: str
    lld_path: str
    """The design's place in the repository."""
    lld_text: str
    depends_on: list[str]
    branch_prefix: str
    """What the branch has before the item's id: two projects of one repository may both have an item 7."""


PlainRecord = dict[str, Any]
"""What `as_plain` makes of a record. LangGraph merges states of this form."""


def unique(known: list[str], new: list[str]) -> list[str]:
    return list(dict.fromkeys((*known, *new)))


def last_of_each_path(known: list[PlainRecord], new: list[PlainRecord]) -> list[PlainRecord]:
    """Deviations, in the plain form that a checkpoint holds: nodes are given the records again."""
    return list({entry["path"]: entry for entry in (*known, *new)}.values())


def summed(known: dict[str, float], new: dict[str, float]) -> dict[str, float]:
    return {name: known.get(name, 0) + new.get(name, 0) for name in {**known, **new}}


class ImplementationUpdate(TypedDict, total=False):
    """What nodes may return. Each stage has a record from the first node on."""

    calls: Annotated[dict[str, int], operator.or_]
    """Model calls so far, by node."""
    usage: Annotated[dict[str, float], summed]
    history: Annotated[int, latest]
    """The last entry of the item's lineage that belongs to a finished node."""
    head: str
    """The branch's commit after the last finished node: what a node that runs again goes back to."""
    baseline: Baseline
    plan: SuitePlan
    scaffold: Scaffold
    red: Red
    rounds: Annotated[list[Round], operator.add]
    green: Green | None
    best_green: Green | None
    """Of the best round so far: what the reports are about when that one is put back."""
    coder: str
    refusals: Annotated[list[str], operator.add]
    """Answers that were not carried out, and why."""
    decisions: Annotated[list[str], unique]
    """Choices that the coder says the design left open."""
    deviations: Annotated[list[Deviation], last_of_each_path]
    """Files outside the design's table, with the reasons given."""
    final_commit: str
    outcome: str
    """The item's, at the end."""
    reason: str


class ImplementationState(ImplementationInput, ImplementationUpdate):
    """What nodes are given."""
