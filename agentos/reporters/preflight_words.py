"""What a run has to work with, in a line: told before it starts, and by a dry run."""

from __future__ import annotations

from agentos.preflight import PreflightDone
from agentos.text.words import counted, dollars, listed, one_line


def preflight_words(found: PreflightDone) -> str:
    """`Models: offline. Keys: none needed. Expected cost: none.`"""
    models = listed([one_line(model, longest=80) for model in found.models]) or "up to the graph"
    is_free = bool(found.models) and found.expected_cost_usd == 0.0 and not found.keys
    keys = "none needed" if is_free else listed([one_line(name, longest=60) for name in found.keys], 5) or "none"
    expected = "none" if is_free else _expected_cost(found)
    return f"Models: {models}. Keys: {keys}. Expected cost: {expected}.{_day_budget(found)}"


def _day_budget(found: PreflightDone) -> str:
    if found.day_budget_usd is None:
        return ""
    spent = f"{dollars(found.spent_today_usd)} of {dollars(found.day_budget_usd)}"
    return f" The day's budget for everything with this home: {spent} spent or reserved."


def _expected_cost(found: PreflightDone) -> str:
    cost = found.expected_cost_usd
    if cost is None:
        return (
            "unknown: past runs made no such calls" if found.past_items else "unknown: there is no past run to go by"
        )
    amount = "less than $0.01" if cost < 0.01 else f"about {dollars(cost)}"
    return f"{amount}, from {counted(found.past_items, 'past item')}"
