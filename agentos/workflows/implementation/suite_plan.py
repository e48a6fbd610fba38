"""The test plan: every requirement of a design has a scenario, or gets one (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentos.documents.coverage import Certainty, coverage, likely_requirements
from agentos.documents.lld import Lld
from agentos.documents.scenarios import EVERYTHING

_TARGET = re.compile(
    r"coverage[^\n|.]{0,80}?\b(?P<after>\d{2,3})\s*%|\b(?P<before>\d{2,3})\s*%[^\n|.]{0,40}?\bcoverage", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PlannedScenario:
    """One thing to test."""

    id: str
    scenario: str
    requirements: tuple[str, ...] = ()
    expected: str = ""
    is_added: bool = False
    """Not the design's own."""


def planned(lld: Lld) -> tuple[PlannedScenario, ...]:
    """The design's scenarios, and one more for each requirement that none of them covers."""
    covered = likely_requirements(lld.requirements, lld.scenarios)
    everything = tuple(requirement.id for requirement in lld.requirements)
    own = [
        PlannedScenario(
            scenario.id or str(number),
            scenario.scenario,
            everything if EVERYTHING in requirements else tuple(requirements),
            scenario.expected or scenario.pass_criteria,
        )
        for number, (scenario, requirements) in enumerate(zip(lld.scenarios, covered, strict=True), start=1)
    ]
    added = [
        PlannedScenario(f"R{match.requirement.id}", match.requirement.text, (match.requirement.id,), is_added=True)
        for match in coverage(lld.requirements, lld.scenarios)
        if match.certainty in (Certainty.NONE, Certainty.UNSURE)
    ]
    return (*own, *added)


def with_changes(plan: Sequence[PlannedScenario], changes: Sequence[PlannedScenario]) -> tuple[PlannedScenario, ...]:
    """The plan with scenarios replaced by id or added. None is ever dropped."""
    by_id = {scenario.id: scenario for scenario in plan}
    for change in changes:
        known = by_id.get(change.id)
        by_id[change.id] = replace(
            change,
            requirements=change.requirements or (known.requirements if known else ()),
            is_added=known is None or known.is_added,
        )
    return tuple(by_id.values())


def plan_text(plan: Sequence[PlannedScenario]) -> str:
    """The plan as Markdown, one line per scenario."""
    return "\n".join(
        f"- [{entry.id}] {entry.scenario}"
        + (f" Expected: {entry.expected}." if entry.expected else "")
        + (f" (requirement {', '.join(entry.requirements)})" if entry.requirements else "")
        for entry in plan
    )


def coverage_target(lld_text: str, default: int) -> int:
    """The coverage a design asks for, in percent; the project's own target when it names none."""
    found = [int(match["after"] or match["before"]) for match in _TARGET.finditer(lld_text)]
    usable = [percent for percent in found if 0 < percent <= 100]
    return usable[0] if usable else default
