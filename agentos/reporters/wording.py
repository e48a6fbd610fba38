"""What each event is called in words for people. Pure: an event in, whole lines of text out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from agentos.events import (
    BudgetNoticed,
    CallFinished,
    CallStarted,
    ChildrenLeaked,
    ControlTaken,
    CustomWritten,
    Event,
    ItemEnded,
    ItemEvent,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    ResultProduced,
    RunEnded,
    RunFaulted,
    RunNoticed,
    RunStarted,
    StopRequested,
    Warned,
)
from agentos.outcomes import FAILED, Cause, Outcome, in_reading_order
from agentos.preflight import PreflightDone
from agentos.reporters.preflight_words import preflight_words
from agentos.text.output_prefixer import prefix_of
from agentos.text.terminal import clean_block
from agentos.text.words import (
    at_a_time,
    budget_reached,
    countdown,
    counted,
    day_budget_reached,
    dollars,
    duration,
    listed,
    one_line,
)

LabelOf = Callable[[str], str]
"""From an item's id to what people see in brackets: `42` to `LLD-42`."""

COORDINATOR = prefix_of("COORDINATOR")
_SHUTTING_DOWN = f"{COORDINATOR} Shutting down..."
_NO_WORKERS = "no item was under way"
_EXHAUSTED = f"{COORDINATOR} Credential pool exhausted. Pausing all workflows..."


class Alarm(str):
    """A line that a terminal shows in red."""

    __slots__ = ()


def labels_with(prefix: str) -> LabelOf:
    """The labels of a run: its prefix before each item's id."""
    return lambda item_id: prefix + item_id


def outcome_words(outcome: Outcome, number: int = 1) -> str:
    """`needs_revision` as people say it, of one item or of several; a graph's own word made safe to show."""
    return one_line(outcome.in_words(number), longest=60)


def counts_in_words(counts: Mapping[Outcome, int], failed_labels: Sequence[str] = ()) -> str:
    """`9 completed, 1 failed (LLD-42)`: the good outcomes first, the failed named when their labels are given."""
    parts = []
    for outcome in in_reading_order(outcome for outcome, number in counts.items() if number):
        number = counts[outcome]
        names = f" ({listed(failed_labels)})" if outcome == FAILED and failed_labels else ""
        parts.append(f"{number:,} {outcome_words(outcome, number)}{names}")
    return ", ".join(parts) or "nothing finished"


def failure_words(reason: str, error_type: str = "") -> str:
    """`FAILED: Invalid spec format`: always one line and never without a reason."""
    return f"FAILED: {one_line(reason) or one_line(error_type) or 'no reason was given'}"


def dry_run_lines(item_ids: Iterable[str], label_of: LabelOf = str) -> list[str]:
    """What a dry run of plain callables says: the count, then each item in order."""
    labels = [label_of(item_id) for item_id in item_ids]
    heading = f"{COORDINATOR} Dry run mode: {counted(len(labels), 'item')} would run, nothing was started"
    return [heading, *(f"{prefix_of(label)} would run" for label in labels)]


def lines(event: Event, label_of: LabelOf = str) -> list[str]:
    """The event in whole lines, each beginning with its label in brackets. Some events have nothing to say."""
    if isinstance(event, ItemEvent):
        prefix = prefix_of(label_of(event.item_id))
        kind = Alarm if isinstance(event, ItemEnded) and event.outcome == FAILED else str
        return [kind(f"{prefix} {text}") for text in _item_texts(event)]
    match event:
        case RunFaulted(reason=reason):
            return [Alarm(f"{COORDINATOR} FAULT: {one_line(reason)}. Stopping all workflows")]
        case PoolExhausted(kind="none_valid"):
            return [Alarm(f"{COORDINATOR} {_no_key(event)}")]
        case PoolExhausted():
            why = _next_opening(event) if event.kind == "limited" else _busy(event)
            return [
                f"{COORDINATOR} {_waits(event, label_of)}: {why}"
                if event.waiting
                else f"{_EXHAUSTED} that need a key: {why}"
            ]
        case ControlTaken(target=target):
            return [f"{prefix_of(label_of(target)) if target else COORDINATOR} {text}" for text in _act_texts(event)]
        case StopRequested(at_once=True):
            return [f"{COORDINATOR} Stopping at once"]
        case StopRequested(has_workers=has_workers):
            return [f"{_SHUTTING_DOWN} {'waiting for workers to checkpoint' if has_workers else _NO_WORKERS}"]
        case _:
            return [f"{COORDINATOR} {_run_text(event)}"]


def log_text(event: ItemEvent) -> str:
    """The event as one line of its item's own log, which tells more than the console."""
    match event:
        case ItemStarted():
            start = f"attempt {event.attempt} started (pid {event.pid})"
            return ", ".join([start, *_item_texts(event)])
        case NodeFinished(node=node, seconds=seconds):
            return f"<<< Finished: {one_line(node)} ({duration(seconds)})"
        case ItemEnded():
            return _logged_end(event)
        case _:
            return " ".join(_item_texts(event))


def _logged_end(event: ItemEnded) -> str:
    words = "FAILED" if event.outcome == FAILED else outcome_words(event.outcome)
    if not event.outcome.never_ran:
        words = f"{words} after {duration(event.seconds)} in {counted(event.attempts, 'attempt')}"
    reason = ": ".join(one_line(part, longest=4000) for part in (event.error_type, event.reason) if part)
    return f"{words}: {reason}" if reason else words


_RunEvent = (
    RunStarted
    | PreflightDone
    | Warned
    | RunNoticed
    | PoolResumed
    | KeyCoolingDown
    | ParallelismChanged
    | BudgetNoticed
    | RunEnded
)


def _item_texts(event: ItemEvent) -> list[str]:
    match event:
        case NodeFinished() | ResultProduced() | ItemStarted(resumed_after=None):
            return []
        case CallStarted() | CallFinished() | ItemWaiting() | ItemWaited():
            return []  # A page shows them as they go on; lines would drown what an item says itself.
        case ItemStarted(resumed_after=node):
            return [f"resuming after {one_line(node or '')}"]
        case NodeStarted(node=node):
            return [f">>> Executing: {one_line(node)}"]
        case OutputProduced(block=block):
            text = clean_block(block, keep_colour=False).decode(errors="replace")
            return text.removesuffix("\n").split("\n") if text else []
        case CustomWritten(data=data):
            return [one_line(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))]
        case ItemNoticed(text=text):
            return [one_line(text)]
        case ItemEnded():
            return [_ending(event)]
        case ItemRetried(attempt=attempt, reason=reason):
            return [f"attempt {attempt} failed: {one_line(reason)}; trying again"]
        case ItemStalled(silent_seconds=seconds):
            return [f"no sign of life for {duration(seconds)}, ending it"]
        case ChildrenLeaked(pids=pids):
            return [f"left {_processes(pids)} behind; ended now"]
        case _:
            assert_never(event)


def _ending(event: ItemEnded) -> str:
    if event.outcome == FAILED:
        return failure_words(event.reason, event.error_type)
    words = outcome_words(event.outcome)
    if event.cause is Cause.EARLIER_RUN:
        return f"{words} {one_line(event.reason)}"
    if event.reason:
        words = f"{words}: {one_line(event.reason)}"
    # Of an item that never ran, a time would only puzzle.
    return words if event.outcome.never_ran else f"{words} ({duration(event.seconds)})"


def _processes(pids: Sequence[int]) -> str:
    shown = listed([str(pid) for pid in pids])
    return f"1 process (pid {shown})" if len(pids) == 1 else f"{len(pids)} processes (pids {shown})"


def _run_text(event: _RunEvent) -> str:
    match event:
        case RunStarted(items=items, parallel=parallel, workflow=workflow, python=python):
            under = f"; workers run under {one_line(python)}" if python else ""
            return f"{at_a_time(len(items), parallel)} (graph {one_line(workflow)}){under}"
        case PreflightDone():
            return preflight_words(event)
        case Warned(text=text):
            return f"Warning: {one_line(text)}"
        case RunNoticed(text=text):
            return one_line(text)
        case PoolResumed(waited_seconds=seconds, waiting=waiting):
            again = f"Keys are available again after {duration(seconds)}"
            return again if waiting else f"{again}. Resuming all workflows that waited"
        case KeyCoolingDown():
            return _cooling(event)
        case ParallelismChanged(now=now, before=before, reason=reason):
            return f"Running {now} at a time instead of {before}: {one_line(reason)}"
        case BudgetNoticed():
            return _budget(event)
        case RunEnded(counts=counts):
            return counts_in_words(counts)
        case _:
            assert_never(event)


def _act_texts(event: ControlTaken) -> list[str]:
    """Who did what. Nothing where what follows from it is told by itself: an end, a number of items at once."""
    who = f"{one_line(event.by)}{f': {one_line(event.reason)}' if event.reason else ''}"
    match event.act:
        case "pause":
            return [f"Paused by {who}. Nodes under way finish; nothing new starts"]
        case "resume":
            return [f"Resumed by {who}"]
        case "budget":
            return [f"Budget is now ${event.value or 0.0:,.2f}, set by {who}"]
        case "stop" if event.target:
            return [f"stopping, requested by {who}; it keeps its checkpoint"]
        case "stop":
            return [f"Stop requested by {who}"]
        case "retry":
            return [f"retrying, requested by {who}"]
        case _:
            return []


def _cooling(event: KeyCoolingDown) -> str:
    subject = f"Key {one_line(event.key_name, longest=60)} {one_line(event.reason)}"
    if not math.isfinite(event.seconds) or event.seconds <= 0:
        return subject  # Waiting would not bring it back.
    seconds = max(1, math.ceil(event.seconds))
    return f"{subject}, back in {f'{seconds}s' if seconds < 120 else countdown(seconds)}"


def _budget(event: BudgetNoticed) -> str:
    spent, cap, needed = event.spent_usd, event.budget_usd, event.needed_usd
    if needed is not None:
        next_usd = needed - spent
        return (
            day_budget_reached(spent, cap, next_usd, event.day) if event.day else budget_reached(spent, cap, next_usd)
        )
    name = "The day's budget" if event.day else "Budget"
    amounts = f"{dollars(spent)} of {dollars(cap)} spent or reserved"
    return (
        f"{name} reached: {amounts}. Nothing new starts" if spent >= cap else f"{name}: {amounts} ({spent / cap:.0%})"
    )


def _no_key(event: PoolExhausted) -> str:
    names = [one_line(name, longest=60) for name in event.names]
    if not names:
        return "There is no key for a model that is needed: its calls fail"
    return f"No usable key is left ({listed(names)}: rejected or without quota): calls fail"


def _waits(event: PoolExhausted, label_of: LabelOf) -> str:
    labels = [one_line(label_of(item_id), longest=60) for item_id in event.waiting]
    return f"{listed(labels)} {'waits' if len(labels) == 1 else 'wait'} for a key"


def _busy(event: PoolExhausted) -> str:
    others = "; limited: " + listed([one_line(name, longest=60) for name in event.limited]) if event.limited else ""
    subject = "all other keys are busy" if event.limited else "all keys are busy"
    if event.slots is None:
        return f"{subject}{others}. To go faster, add a key"
    at_once = f" ({counted(event.slots, 'call')} at a time)"
    return f"{subject}{at_once}{others}. To go faster, add a key or raise max_concurrent"


def _next_opening(event: PoolExhausted) -> str:
    seconds = event.seconds
    wait = "" if seconds is None else f" (in {countdown(seconds)})"
    why, what = ("the provider is overloaded", "try") if event.is_overload else ("all keys limited", "key")
    if event.until is None:
        return f"{why}{wait}"
    return f"{why}, next {what} at {_local_time(event.until, seconds)}{wait}"


def _local_time(until: str, seconds: float | None) -> str:
    """`14:32:10` on the user's clock, with the date when that is not today's."""
    try:
        opening = datetime.fromisoformat(until).astimezone()
    except ValueError:
        return one_line(until, longest=40)
    today = (opening - timedelta(seconds=seconds or 0)).date()
    return opening.strftime("%H:%M:%S" if opening.date() == today else "%Y-%m-%d %H:%M:%S")
