"""The line that resumes a run: what was typed, for the items that are not finished."""

from __future__ import annotations

import re
from collections.abc import Sequence

IDS = "{ids}"
"""Where the unfinished items' ids go; a command for all items has no such place."""
BUDGET = "{budget}"
"""Where the budget goes."""
_MORE_BUDGET = 2.0
"""A budget that ended a run may be too small for its next call: the resumed run gets this many times as much."""


def resume_line(
    template: str, unfinished: Sequence[str], budget_usd: float | None = None, *, is_budget_spent: bool = False
) -> str:
    """The template with its places filled; empty when it names items and none is left."""
    if not unfinished and IDS in template:
        return ""
    budget = (budget_usd or 0.0) * (_MORE_BUDGET if is_budget_spent else 1.0)
    values = {IDS: " ".join(unfinished), BUDGET: plain_number(budget)}
    return re.sub(r"(?<!\S)\{(?:ids|budget)\}(?!\S)", lambda match: values[match[0]], template)


def plain_number(value: float) -> str:
    """As one would type it: `3`, `0.5`."""
    return str(value).removesuffix(".0")
