"""Test plans: every requirement has a scenario, none is ever dropped."""

from __future__ import annotations

import pytest

from agentos.documents.lld import parse_lld
from agentos.workflows.implementation.suite_plan import (
    PlannedScenario,
    coverage_target,
    plan_text,
    planned,
    with_changes,
)

_LLD = """# 7 - Feature: Sums

## 3. Requirements

1. Sums of two numbers are exact.
2. Text is refused with a message.
3. Colours of the terminal are kept.

## 10. Verification & Testing

### 10.1 Test Scenarios

| ID | Scenario | Expected Output | Requirement |
|----|----------|-----------------|-------------|
| 010 | Two numbers | Their sum | 1 |
| 020 | Text | A message | 2 |
"""


def test_requirements_without_a_scenario_get_one() -> None:
    plan = planned(parse_lld(_LLD))

    assert [(entry.id, entry.requirements, entry.is_added) for entry in plan] == [
        ("010", ("1",), False),
        ("020", ("2",), False),
        ("R3", ("3",), True),
    ]


def test_a_scenario_for_everything_covers_every_requirement() -> None:
    plan = planned(parse_lld(_LLD.replace("| Their sum | 1 |", "| Their sum | All |")))

    assert plan[0].requirements == ("1", "2", "3")
    assert not any(entry.is_added for entry in plan)


def test_changes_replace_or_add_and_drop_nothing() -> None:
    plan = planned(parse_lld(_LLD))
    changes = [
        PlannedScenario("010", "Large numbers", expected="exact"),
        PlannedScenario("040", "No numbers", ("1",)),
    ]

    changed = with_changes(plan, changes)

    assert [entry.id for entry in changed] == ["010", "020", "R3", "040"]
    assert changed[0].requirements == ("1",)
    assert plan_text(changed).splitlines()[0] == "- [010] Large numbers Expected: exact. (requirement 1)"
    assert changed[3].is_added


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("- [ ] Coverage of changed files is at least 85 %", 85),
        ("Reach 95% line coverage.", 95),
        ("Coverage matters.", 90),
        ("Coverage of 000 % and 250 %", 90),
        ("We cover 12 % of the cost.", 90),
    ],
)
def test_the_designs_own_coverage_target_counts(text: str, percent: int) -> None:
    assert coverage_target(text, default=90) == percent
