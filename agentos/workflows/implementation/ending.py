"""How an item ends and which way it goes next: decisions on its state (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentos.documents.verdict import Verdict, stored_review
from agentos.workflows.implementation.judging import Round, best_round, find_stagnation
from agentos.workflows.implementation.state import ImplementationState

IMPLEMENTED = "implemented"
NEEDS_REVISION = "needs_revision"
MOST_PLANS = 3
MOST_SCAFFOLDS = 3


def after_plan(state: ImplementationState) -> str:
    """`scaffold` an approved plan, `plan` again, or `report` when that would not help."""
    verdict = stored_review(state["plan_reviews"][-1])
    if verdict.is_approval:
        return "scaffold"
    may_help = verdict.verdict is Verdict.REVISE and len(state["plan_reviews"]) < MOST_PLANS
    return "plan" if may_help else "report"


def after_red(state: ImplementationState) -> str:
    """`implement` when the tests are red, `scaffold` again, or `report`."""
    if not state["red_complaint"]:
        return "implement"
    return "scaffold" if state["scaffolds"] < MOST_SCAFFOLDS else "report"


def after_green(state: ImplementationState, max_rounds: int) -> str:
    """`report` when green or stuck, else `implement` once more."""
    is_over = state["green"]["is_green"] or len(state["rounds"]) >= max_rounds
    return "report" if is_over or find_stagnation(_rounds(state)) else "implement"


def conclusion(state: ImplementationState, max_rounds: int) -> tuple[str, str]:
    """The outcome and, unless all is well, why."""
    if state.get("rounds"):
        return _conclusion_of_rounds(state, max_rounds)
    if state.get("red_complaint"):
        first_line = state["red_complaint"].splitlines()[0]
        return NEEDS_REVISION, f"the tests do not fail as they should: {first_line}"
    verdict = stored_review(state["plan_reviews"][-1])
    why = verdict.findings[0].text if verdict.findings else verdict.summary
    return NEEDS_REVISION, f"the test plan is not approved ({verdict.verdict.value}): {why}"


def _conclusion_of_rounds(state: ImplementationState, max_rounds: int) -> tuple[str, str]:
    green = state["green"]
    if green["is_green"]:
        unverified = green["unverified"]
        return IMPLEMENTED, f"not verified: {'; '.join(unverified)}" if unverified else ""
    stagnation = find_stagnation(_rounds(state))
    stopped = stagnation.reason if stagnation else f"not green after {min(max_rounds, len(state['rounds']))} rounds"
    best = best_round(_rounds(state))
    return NEEDS_REVISION, f"{stopped}; round {best + 1} is kept: {state['rounds'][best]['words']}"


def round_to_restore(state: ImplementationState, outcome: str) -> int | None:
    """The round to go back to: the best one, unless it is the last."""
    if outcome == IMPLEMENTED or not state.get("rounds"):
        return None
    best = best_round(_rounds(state))
    return best if best != len(state["rounds"]) - 1 else None


def is_best(rounds: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last round is the one to keep so far."""
    return best_round(_typed(rounds)) == len(rounds) - 1


def _rounds(state: ImplementationState) -> list[Round]:
    return _typed(state["rounds"])


def _typed(rounds: Sequence[Mapping[str, Any]]) -> list[Round]:
    return [
        Round(frozenset(entry["failing"]), coverage_percent=entry["coverage"], commit=entry["commit"])
        for entry in rounds
    ]
