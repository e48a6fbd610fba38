"""The test plan: every requirement of a design has a scenario, or gets one (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentos.documents.coverage import Certainty, coverage, likely_requirements
from agentos.documents.lld import Lld
from agentos.documents.scenarios import EVERYTHING

_TARGET = re.compile(
    r"coverage[^\n|.]{0,80}?\b(?P<after>\d{2,3})\s*%|\b(?P<before>\d{2,3})\s*%[^\n|.]{0,40}?\bcoverage", re.IGNORECASE
)


def planned(lld: Lld) -> list[dict[str, Any]]:
    """The design's scenarios, and one more for each requirement that none of them covers."""
    covered = likely_requirements(lld.requirements, lld.scenarios)
    everything = [requirement.id for requirement in lld.requirements]
    plan = [
        _entry(
            scenario.id or str(number),
            scenario.scenario,
            everything if EVERYTHING in requirements else requirements,
            scenario.expected or scenario.pass_criteria,
            is_added=False,
        )
        for number, (scenario, requirements) in enumerate(zip(lld.scenarios, covered, strict=True), start=1)
    ]
    for match in coverage(lld.requirements, lld.scenarios):
        if match.certainty in (Certainty.NONE, Certainty.UNSURE):
            requirement = match.requirement
            plan.append(_entry(f"R{requirement.id}", requirement.text, [requirement.id], "", is_added=True))
    return plan


def _entry(
    identifier: str, scenario: str, requirements: Sequence[str], expected: str, *, is_added: bool
) -> dict[str, Any]:
    return {
        "id": identifier,
        "scenario": scenario,
        "requirements": list(requirements),
        "expected": expected,
        "is_added": is_added,
    }


def with_changes(plan: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The plan with scenarios replaced by id or added. None is ever dropped."""
    by_id = {str(entry["id"]): dict(entry) for entry in plan}
    for change in changes:
        identifier = str(change["id"])
        known = by_id.get(identifier)
        by_id[identifier] = _entry(
            identifier,
            str(change["scenario"]),
            [str(number) for number in change["requirements"]] or (known["requirements"] if known else []),
            str(change["expected"]),
            is_added=known is None or bool(known["is_added"]),
        )
    return list(by_id.values())


def plan_text(plan: Sequence[Mapping[str, Any]]) -> str:
    """The plan as Markdown, one line a scenario."""
    return "\n".join(
        f"- [{entry['id']}] {entry['scenario']}"
        + (f" Expected: {entry['expected']}." if entry["expected"] else "")
        + (f" (requirement {', '.join(entry['requirements'])})" if entry["requirements"] else "")
        for entry in plan
    )


def coverage_target(lld_text: str, default: int) -> int:
    """The coverage a design asks for, in percent; the project's own target when it names none."""
    found = [int(match["after"] or match["before"]) for match in _TARGET.finditer(lld_text)]
    usable = [percent for percent in found if 0 < percent <= 100]
    return usable[0] if usable else default
