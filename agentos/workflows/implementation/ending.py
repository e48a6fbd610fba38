"""How an item ends and which way it goes next: decisions on its state (pure)."""

from __future__ import annotations

from agentos.documents.approval import REHEARSER
from agentos.documents.verdict import Verdict
from agentos.workflows.implementation.judging import best_round, find_stagnation
from agentos.workflows.implementation.state import IMPLEMENTED, NEEDS_REVISION, REHEARSED, Green, ImplementationState

MOST_PLANS = 3
MOST_SCAFFOLDS = 3


def after_plan(state: ImplementationState) -> str:
    """`scaffold` an approved plan, `plan` again, or `report` when that would not help."""
    reviews = state["plan"].reviews
    if reviews[-1].is_approval:
        return "scaffold"
    may_help = reviews[-1].verdict is Verdict.REVISE and len(reviews) < MOST_PLANS
    return "plan" if may_help else "report"


def after_red(state: ImplementationState) -> str:
    """`implement` when the tests are red, `scaffold` again, or `report`."""
    if not state["red"].complaint:
        return "implement"
    return "scaffold" if state["scaffold"].attempts < MOST_SCAFFOLDS else "report"


def after_green(state: ImplementationState, max_rounds: int) -> str:
    """`report` when green or stuck, else `implement` once more."""
    is_over = _is_green(state["green"]) or _is_weak(state["green"]) or len(state["rounds"]) >= max_rounds
    return "report" if is_over or find_stagnation(state["rounds"]) else "implement"


def _is_green(green: Green | None) -> bool:
    return green is not None and green.is_green


def _is_weak(green: Green | None) -> bool:
    """Whether the tests are at fault, which no code can mend."""
    return green is not None and bool(green.weakness)


def conclusion(state: ImplementationState, max_rounds: int) -> tuple[str, str]:
    """The outcome and, unless all is well, why."""
    green = state["green"]
    if green is not None and green.is_green and state["coder"] == REHEARSER:
        return REHEARSED, "the offline model wrote a skeleton: nothing of the design is carried out"
    if green is not None and green.is_green:
        return IMPLEMENTED, f"not verified: {'; '.join(green.unverified)}" if green.unverified else ""
    return NEEDS_REVISION, _why_not(state, max_rounds)


def _why_not(state: ImplementationState, max_rounds: int) -> str:
    if rounds := state["rounds"]:
        if (green := state["green"]) is not None and green.weakness:
            return green.weakness
        stagnation = find_stagnation(rounds)
        stopped = stagnation.reason if stagnation else f"not green after {min(max_rounds, len(rounds))} rounds"
        best = best_round(rounds)
        return f"{stopped}; round {best + 1} is kept: {rounds[best].words}"
    if complaint := state["red"].complaint:
        return f"the tests do not fail as they should: {complaint.splitlines()[0]}"
    review = state["plan"].reviews[-1]
    why = review.findings[0].text if review.findings else review.summary
    return f"the test plan is not approved ({review.verdict.value}): {why}"


def is_the_works_own(state: ImplementationState) -> bool:
    """Whether it is for a person to look at. A reviewer that talked nonsense is not: a later run asks again."""
    reviews = state["plan"].reviews
    return not (reviews and reviews[-1].verdict is Verdict.UNVERIFIED)


def round_to_restore(state: ImplementationState, outcome: str) -> int | None:
    """The round to go back to: the best one, unless it is the last."""
    rounds = state["rounds"]
    if outcome in (IMPLEMENTED, REHEARSED) or not rounds:
        return None
    best = best_round(rounds)
    return best if best != len(rounds) - 1 else None
