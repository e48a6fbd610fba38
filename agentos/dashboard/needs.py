"""What of a run needs somebody, most urgent first, each with its reason and what can be done about it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

from agentos.dashboard.view import ItemView, RunState, RunView
from agentos.hints import Hint, Place
from agentos.outcomes import AWAITING_REVIEW, FAILED, NEEDS_REVISION, PAUSED
from agentos.reporters.wording import outcome_words
from agentos.text.words import countdown, dollars, duration, one_line

Document = dict[str, Any]

MOST_ITEMS: Final = 200
"""Beyond so many items that need somebody, the list of items is the better place to look."""


def action(name: str, label: str, *, primary: bool = False) -> Document:
    """A button."""
    return {"name": name, "label": label, "primary": primary}


OPEN: Final = action("open", "Open")


def needs_of(
    view: RunView,
    *,
    may_control: bool,
    resume_command: str = "",
    conflicts: Mapping[str, str] | None = None,
    answered: Collection[str] = (),
) -> list[Document]:
    """`may_control`: the reader may answer, and steer while the run lives. `conflicts`: why branches do not merge.

    `answered`: what waits for no more than to be continued.
    """
    found = [*_of_run(view, may_control and not view.is_over, resume_command)]
    waiting = [item for item in view.needing_somebody if item.outcome is not None and not item.outcome.never_ran]
    for item in waiting[:MOST_ITEMS]:
        is_answered = item.outcome == AWAITING_REVIEW and item.id in answered
        told = (
            _to_continue(item, resume_command) if is_answered else _of_item(view, item, may_control, resume_command)
        )
        found.append(told)
    if len(waiting) > MOST_ITEMS:
        left = len(waiting) - MOST_ITEMS
        text = f"{left:,} more items need you: filter the list of items by what needs you."
        found.append(_need("more", None, text) | {"count": left})
    look = [action("diff", "Open the diff", primary=True)]
    clashing = {name: why for name, why in (conflicts or {}).items() if name in view.items}
    return found + [_need("conflict", view.items[name], one_line(why), look) for name, why in clashing.items()]


def _of_run(view: RunView, can_steer: bool, resume_command: str) -> Iterator[Document]:
    match view.state:
        case RunState.LOST:
            text = "its coordinator is gone; the same command continues from the checkpoints"
            yield _need("lost", None, text, [action("copy", "Copy the command", primary=True)], resume_command)
        case RunState.STALLED:
            text = f"nothing recorded for {duration(view.elapsed - view.last_at)}, although items are at work"
            yield _need("stalled", None, text, [action("stop", "Stop the run", primary=True)] if can_steer else [])
        case RunState.PAUSED:
            reason = f": {view.pause_reason}" if view.pause_reason else ""
            text = one_line(f"paused by {view.paused_by}{reason}")
            yield _need("paused", None, text, [action("resume", "Resume", primary=True)] if can_steer else [])
    if view.needed_usd is not None:
        yield _over_budget(view, can_steer, resume_command)
    elif not view.is_over and any(wait.kind == "budget" for item in view.running if (wait := item.waits_for)):
        text = "calls wait for money that other calls have reserved: the budget is nearly used up"
        can_raise = can_steer and view.budget_usd is not None
        yield _need("budget", None, text, [action("budget", "Raise the budget", primary=True)] if can_raise else [])
    if (text := _all_cooling(view)) and not view.is_over:
        yield _need("keys", None, text, [action("copy", "Copy the command")], Hint.CHECK_KEYS.line())


def _over_budget(view: RunView, can_steer: bool, resume_command: str) -> Document:
    needed, budget = view.needed_usd or 0.0, view.budget_usd or 0.0
    text = f"the budget of {dollars(budget)} is reached; the next call needs {dollars(needed)}"
    if can_steer and view.state is not RunState.STOPPING:
        return _need("budget", None, text, [action("budget", "Raise the budget", primary=True)])
    copy = [action("copy", "Copy the command", primary=True)] if resume_command else []
    return _need("budget", None, f"{text}. Continue with a higher --budget", copy, resume_command)


def _all_cooling(view: RunView) -> str:
    """Why no key serves; empty when one does."""
    states = [use.state(view.elapsed) for use in view.key_uses.values()]
    if not states or any(state in ("free", "held") for state in states):
        return ""
    openings = (use.opens_at for use in view.key_uses.values() if use.state(view.elapsed) == "cooling")
    soonest = min(openings, default=math.inf)
    if not math.isfinite(soonest):
        return "no key can be used: rejected, or without quota"
    return f"all keys are cooling down; the next one opens in {countdown(soonest - view.elapsed)}"


def _to_continue(item: ItemView, resume_command: str) -> Document:
    copy = [action("copy", "Copy the command", primary=True)] if resume_command else []
    return _need("review", item, "answered: it continues with the next run", [*copy, OPEN], resume_command)


def _of_item(view: RunView, item: ItemView, may_control: bool, resume_command: str) -> Document:
    outcome = item.outcome
    assert outcome is not None
    reason = one_line(item.reason or item.error_type, longest=400)
    text = f"{outcome_words(outcome)}{f': {reason}' if reason else ''}"
    can_steer = may_control and not view.is_over
    if outcome == AWAITING_REVIEW:
        answers = [action("approve", "Approve", primary=True), action("revise", "Revise…")] if may_control else []
        return _need("review", item, text, [*answers, OPEN], _command(Hint.LOOK_AT_REVIEW, item.label, view))
    if outcome == NEEDS_REVISION:
        look = action("diff", "Open the diff", primary=True) if view.workflow == "implementation" else OPEN
        return _need("revision", item, text, [look], _command(Hint.SHOW_DOCUMENT, item.label, view))
    if outcome == PAUSED:
        return _need("paused", item, text, [OPEN], resume_command)
    retry = [action("retry", "Retry", primary=True)] if can_steer else []
    copy = [action("copy", "Copy the command")] if resume_command and not can_steer else []
    kind = "failed" if outcome == FAILED else "question"
    return _need(kind, item, text, [*retry, OPEN, *copy], resume_command)


@cache
def _line(hint: Hint, label: str, project: str) -> str:
    return hint.line(label=label, place=Place(project=project))


def _command(hint: Hint, label: str, view: RunView) -> str:
    return _line(hint, label, view.project_dir)


def _need(
    kind: str, item: ItemView | None, text: str, actions: list[Document] | None = None, command: str = ""
) -> Document:
    return {
        "id": f"{kind}:{item.id if item else ''}",
        "kind": kind,
        "item": item.id if item else None,
        "label": one_line(item.label) if item else "",
        "title": one_line(item.title) if item else "",
        "text": text,
        "actions": actions or [],
        "command": command,
        "count": 1,
    }
