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
TIMEOUT_FLAG = "--timeout-seconds"
_TIMEOUT = re.compile(r" \{timeout:(given|default):([^}]*)\}")
_MORE_TIME = 2.0
"""The same for a time limit that an item ran into."""


def resume_line(
    template: str,
    unfinished: Sequence[str],
    budget_usd: float | None = None,
    *,
    is_budget_spent: bool = False,
    has_timed_out: bool = False,
) -> str:
    """The template with its places filled; empty when it names items and none is left."""
    if IDS in template:
        if not unfinished:
            return ""
        template = _with_ids(template, unfinished)
    budget = (budget_usd or 0.0) * (_MORE_BUDGET if is_budget_spent else 1.0)
    filled = template.replace(BUDGET, plain_number(budget))
    return _TIMEOUT.sub(lambda found: _timeout_words(found[1], float(found[2]), has_timed_out=has_timed_out), filled)


def timeout_place(seconds: float, *, is_default: bool) -> str:
    """Where the time limit goes: as it was given, or with more when an item ran into it."""
    return f"{{timeout:{'default' if is_default else 'given'}:{plain_number(seconds)}}}"


def _timeout_words(origin: str, seconds: float, *, has_timed_out: bool) -> str:
    if has_timed_out:
        return f" {TIMEOUT_FLAG} {plain_number(seconds * _MORE_TIME)}"
    return f" {TIMEOUT_FLAG} {plain_number(seconds)}" if origin == "given" else ""


def _with_ids(template: str, ids: Sequence[str]) -> str:
    names = " ".join(ids)
    if any(item_id.startswith("-") for item_id in ids):
        # Behind everything, where they cannot be taken for options.
        return f"{template.replace(f'{IDS} ', '').removesuffix(f' {IDS}')} -- {names}"
    return template.replace(IDS, names)


def without_places(text: str) -> str:
    """Quoted shell text, the same to a shell, in which nothing is taken for a place to fill."""
    return text.replace(IDS, "{'ids'}").replace(BUDGET, "{'budget'}").replace("{timeout:", "{'timeout:'")


def plain_number(value: float) -> str:
    """As one would type it: `3`, `0.5`."""
    return str(value).removesuffix(".0")
