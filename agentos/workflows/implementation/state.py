"""The state of a design on its way to tested code: plain data, small enough to read in a checkpoint."""

from __future__ import annotations

from typing import Any, TypedDict


class ImplementationState(TypedDict, total=False):
    # What the run is given.
    item_id: str
    title: str
    lld_path: str
    """The design's place in the repository."""
    lld_text: str
    depends_on: list[str]
    branch_prefix: str
    """What the branch has before the item's id: two projects of one repository may both have an item 7."""

    # Where the work happens.
    approval: str
    """Who approved the design and when, or that nobody did."""
    base: str
    """The branch or revision the item's branch starts from, as people name it."""
    base_commit: str
    branch: str
    folder: str
    """The project's folder in its repository; empty when it is the whole of it."""
    head: str
    """The branch's commit after the last finished node: what a node that runs again goes back to."""
    coverage_target: int
    suite_before: dict[str, Any]
    """The project's own tests before anything changed."""

    # The tests.
    plan: list[dict[str, Any]]
    """Scenarios, as `test_plan.planned` makes them."""
    plan_reviews: list[dict[str, Any]]
    scaffolds: int
    """How often tests were written."""
    test_files: list[str]
    red: dict[str, Any]
    red_complaint: str
    """What is wrong with the tests; empty when they fail as they should."""

    # The code.
    rounds: list[dict[str, Any]]
    green: dict[str, Any]
    best_green: dict[str, Any]
    """`green` of the best round so far: what the reports are about when that one is put back."""
    feedback: str
    """What the next round is told about the last one."""
    refusals: list[str]
    """Answers that were not carried out, and why."""
    decisions: list[str]
    """Choices that the coder says the design left open."""
    deviations: list[dict[str, str]]
    """Files outside the design's table, with the reasons given."""

    # The books.
    calls: dict[str, int]
    """Model calls so far, by node."""
    usage: dict[str, float]
    coder: str
    plan_reviewer: str
    trail_number: int
    """The last entry of the item's lineage that belongs to a finished node."""

    # How it ended.
    final_commit: str
    outcome: str
    reason: str
