"""A run's view as the page gets it: plain values for JSON. Pure; words for states are made here and nowhere else.

Every text is one that `one_line` made safe to show; the page shows it as text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from agentos.dashboard.key_use import KeyUse
from agentos.dashboard.needs import needs_of
from agentos.dashboard.view import WAIT_WORDS, Call, ItemView, Note, RunState, RunView, Span
from agentos.outcomes import Outcome, in_reading_order
from agentos.reporters.progress import range_in_words
from agentos.reporters.wording import outcome_words
from agentos.text.terminal import clean_block
from agentos.text.words import countdown, counted, duration, one_line

Document = dict[str, Any]

STATE_NAMES: Final = {
    RunState.RUNNING: ("running", "run"),
    RunState.WAITING: ("waiting", "wait"),
    RunState.PAUSED: ("paused", "wait"),
    RunState.STOPPING: ("stopping", "warn"),
    RunState.STALLED: ("stalled", "bad"),
    RunState.LOST: ("lost", "bad"),
    RunState.DONE: ("done", "good"),
}
"""What the page calls a state, and its colour."""
LEGEND: Final = {
    "node": "at work",
    "start": "starting",
    "busy": "all its keys are busy",
    "limited": "its keys are limited",
    "budget": "waits for money",
    "paused": "paused",
}
"""Kinds of spans, in words."""
HOLD_UPS: Final = {"busy": "busy keys", "limited": "limits of keys", "budget": "the budget", "paused": "pauses"}
"""Why fewer items were at work than there were places."""
CALL_WORDS: Final = {
    "ok": ("ok", "good"),
    "rate_limited": ("rate-limited", "warn"),
    "out_of_quota": ("out of quota", "warn"),
    "rejected": ("key rejected", "bad"),
    "not_served": ("model not served", "bad"),
    "overloaded": ("provider overloaded", "warn"),
    "no_answer": ("no answer", "bad"),
    "refused": ("request refused", "bad"),
    "abandoned": ("abandoned", "dim"),
}
_SHORTEST_AVERAGE_SECONDS: Final = 10.0
_WORTH_TELLING: Final = 0.1
_LONGEST_LINE: Final = 240
_LONGEST_TEXT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What is known of an item's branch."""

    name: str
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known beside the records, and who looks."""

    may_control: bool = False
    """The reader holds the control token."""
    past_seconds: Sequence[float] = ()
    """How long such items took in earlier runs."""
    last_lines: Mapping[str, str] = field(default_factory=dict)
    """The last line of each running item's log."""
    branches: Mapping[str, Branch] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Why an item's branch does not merge."""
    key_limits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What is learned of each key's limits, in words."""
    answered: Collection[str] = ()
    """Items that wait for an answer and have it: they continue with the next run."""
    most_parallel: int = 0
    """How many items a run may be asked to have at once, unless it began with more."""
    resume_command: str = ""
    """What continues a run that is over."""
    problem: str = ""
    """Why some of the record is not shown."""

    @property
    def usual_seconds(self) -> float | None:
        """Of one item."""
        return median(self.past_seconds) if self.past_seconds else None


def run_page(view: RunView, around: Surroundings) -> Document:
    """All of a run but its timeline."""
    return {
        "seq": view.last_sequence,
        "clock": _number(view.elapsed),
        "strip": strip(view, around),
        "needs": _needs(view, around),
        "stages": [_text(stage) for stage in view.stages],
        "items": [item_row(view, item, around) for item in view.items.values()],
        "keys": key_rows(view, around),
        "notes": [_note_row(place, note) for place, note in enumerate(view.notes)],
        "notice": _notice(view, around),
    }


def patch(view: RunView, around: Surroundings, since: int, lines_changed: frozenset[str] = frozenset()) -> Document:
    """What of a run's page has changed since a record, by items, keys, notes and spans."""
    document: Document = {
        "seq": view.last_sequence,
        "clock": _number(view.elapsed),
        "strip": strip(view, around),
        "needs": _needs(view, around),
    }
    rows = {
        "stages": [_text(stage) for stage in view.stages] if view.stages_changed > since else [],
        "items": [item_row(view, item, around) for item in _changed_items(view, since, lines_changed)],
        "keys": key_rows(view, around) if _keys_changed(view, since) else [],
        "notes": [_note_row(place, note) for place, note in enumerate(view.notes) if note.sequence > since],
        "blocks": [block(view, span) for span in view.spans_since(since)],
    }
    return document | {name: found for name, found in rows.items() if found}


def _needs(view: RunView, around: Surroundings) -> list[Document]:
    return needs_of(
        view,
        may_control=around.may_control,
        resume_command=around.resume_command,
        conflicts=around.conflicts,
        answered=around.answered,
    )


def _changed_items(view: RunView, since: int, lines_changed: frozenset[str]) -> list[ItemView]:
    found = {item.id: item for item in view.items_since(since)}
    found |= {item_id: view.items[item_id] for item_id in lines_changed if item_id in view.items}
    if view.is_over:
        # There is no turn to wait for any more, and nothing is under way.
        found |= {item.id: item for item in view.items.values() if item.outcome is None}
    return list(found.values())


def _keys_changed(view: RunView, since: int) -> bool:
    return view.is_over or any(use.changed > since for use in view.key_uses.values())


def timeline(view: RunView) -> Document:
    """When each item was at work, and what held it up."""
    return {
        "seq": view.last_sequence,
        "clock": _number(view.elapsed),
        "slots": 1 + max((span.slot for span in view.spans), default=-1),
        "blocks": [block(view, span) for span in view.spans],
        "legend": [{"kind": kind, "words": words} for kind, words in LEGEND.items()],
    }


def strip(view: RunView, around: Surroundings) -> Document:
    """The head of a run's page."""
    name, kind = STATE_NAMES[view.state]
    running = sum(item.is_running for item in view.items.values())
    return {
        "run": view.run_id,
        "workflow": _text(view.workflow),
        "project": _text(project_name(view.project_dir)),
        "project_dir": _text(view.project_dir),
        "started": _text(view.started),
        "is_live": not view.is_over,
        "can_control": around.may_control and not view.is_over,
        "state": name,
        "words": view.state.value,
        "detail": _state_detail(view),
        "kind": "bad" if view.exit_code == 1 else "warn" if view.exit_code else kind,
        "elapsed": _number(view.elapsed if view.wall_seconds is None else view.wall_seconds),
        "eta": _eta(view, around),
        "usual": _usual(view, around),
        "total": len(view.items),
        "ended": view.ended_count,
        "running": running,
        "pending": max(0, len(view.items) - sum(view.counts.values()) - running),
        "counts": count_rows(view.counts),
        "spent_usd": _number(view.cost_usd),
        "budget_usd": view.budget_usd,
        "burn_usd_per_hour": _number(view.burn_usd_per_hour),
        "tokens": view.tokens,
        "parallel": {
            "now": view.parallel,
            "wanted": view.wanted,
            "most": max(around.most_parallel, view.first_parallel),
            "why": _text(view.parallel_reason),
            "effective": _effective(view),
        },
        "keys": _keys_in_short(view),
        "limited": len(view.limited_at) if view.is_over else view.limited_in_5_minutes,
        "waiting": sum(item.waits_for is not None for item in view.items.values()),
        "models": [_text(model) for model in view.models],
        "exit_code": view.exit_code,
        "resume_command": around.resume_command if view.is_over else "",
        "problem": around.problem,
    }


def _state_detail(view: RunView) -> str:
    match view.state:
        case RunState.PAUSED:
            return _text(f"by {view.paused_by}{f': {view.pause_reason}' if view.pause_reason else ''}")
        case RunState.STOPPING:
            return _text(view.stop_reason)
        case RunState.STALLED:
            return f"nothing recorded for {duration(view.elapsed - view.last_at)}"
        case RunState.LOST:
            return "its process died; finished nodes are on disk"
        case RunState.DONE:
            return "" if view.exit_code is None else f"exit code {view.exit_code}"
        case _:
            return ""


def _eta(view: RunView, around: Surroundings) -> Document | None:
    left = view.seconds_left(around.past_seconds)
    if left is None:
        return None
    low, high = left
    return {"low": _number(low), "high": _number(high), "words": range_in_words(low, high)}


def _usual(view: RunView, around: Surroundings) -> Document | None:
    """What a run of so many items usually takes, as many at once."""
    each = around.usual_seconds
    if each is None or not view.items:
        return None
    rounds = math.ceil(len(view.items) / max(1, view.wanted))
    seconds = rounds * each
    return {
        "seconds": _number(seconds),
        "words": f"usually {duration(seconds)} for {counted(len(view.items), 'item')}",
    }


def _effective(view: RunView) -> str:
    """How many places were at work on average, and what held up the others most."""
    used = view.slot_seconds
    if view.elapsed < _SHORTEST_AVERAGE_SECONDS or not used["node"]:
        return ""
    cause = max(HOLD_UPS, key=lambda kind: used.get(kind, 0.0))
    is_held_up = used.get(cause, 0.0) >= _WORTH_TELLING * (used["node"] + used.get(cause, 0.0))
    words = f", held up by {HOLD_UPS[cause]}" if is_held_up else ""
    return f"{used['node'] / view.elapsed:.1f} at work on average{words}"


def _keys_in_short(view: RunView) -> Document | None:
    if not view.key_uses:
        return None
    states = [use.state(view.elapsed) for use in view.key_uses.values()]
    openings = (use.opens_at for use in view.key_uses.values() if use.state(view.elapsed) == "cooling")
    soonest = min(openings, default=math.inf)
    return {
        **{state: states.count(state) for state in ("free", "held", "cooling", "rejected")},
        "next_at": _number(soonest) if math.isfinite(soonest) else None,
    }


def count_rows(counts: Mapping[Outcome, int]) -> list[Document]:
    """Outcomes in reading order, each with its words and its colour."""
    return [
        {
            "outcome": _text(outcome.name),
            "number": counts[outcome],
            "words": f"{counts[outcome]:,} {outcome_words(outcome, counts[outcome])}",
            "kind": outcome_kind(outcome),
        }
        for outcome in in_reading_order(counts)
    ]


def outcome_kind(outcome: Outcome) -> str:
    if outcome.is_failure:
        return "dim" if outcome.never_ran else "bad"
    if outcome.needs_person:
        return "warn"
    return "dim" if outcome.is_left else "good"


def item_row(view: RunView, item: ItemView, around: Surroundings) -> Document:
    """An item in the list."""
    branch = around.branches.get(item.id)
    return {
        "id": item.id,
        "label": _text(item.label),
        "title": _text(item.title),
        "place": item.place,
        **_activity(view, item),
        "outcome": None if item.outcome is None else _text(item.outcome.name),
        "reason": one_line(item.reason or item.error_type, longest=_LONGEST_TEXT),
        "node": _text(item.node),
        "dots": dots(view, item),
        "attempt": item.attempts,
        "cluster_node": one_line(item.cluster_node, longest=_LONGEST_LINE),
        "resumed_after": _text(item.resumed_after),
        "started": None if item.started is None else _number(item.started),
        "seconds": None if item.outcome is None else _number(item.seconds),
        "usual": around.usual_seconds and _number(around.usual_seconds),
        "input_tokens": item.input_tokens,
        "output_tokens": item.output_tokens,
        "cost_usd": _number(item.cost_usd),
        "calls": len(item.calls),
        "waited": _number(item.waited),
        "last_line": one_line(around.last_lines.get(item.id, ""), longest=_LONGEST_LINE),
        "branch": branch and {"name": _text(branch.name), "added": branch.added, "removed": branch.removed},
        "withdrawn": item.is_withdrawn,
        "needs": item.id in around.conflicts
        or (item.needs_person and item.outcome is not None and not item.outcome.never_ran),
    }


def _activity(view: RunView, item: ItemView) -> Document:
    """What it does now and since when, or how it ended."""
    if item.outcome is not None:
        return _doing("ended", outcome_words(item.outcome), outcome_kind(item.outcome))
    if view.is_over:
        return _doing("pending", "not ended" if item.started is not None else "not started", "dim")
    if not item.is_running:
        return _doing("pending", "stopped" if item.is_withdrawn else "waits for its turn", "dim")
    if item.is_withdrawn:
        return _doing("running", "stopping", "warn")
    wait = item.waits_for
    if wait is not None and wait.kind == "start":
        return _doing("running", "starting", "run", wait.start)
    if wait is not None:
        return _doing("waiting", WAIT_WORDS.get(wait.kind, "waiting"), "wait", wait.start, wait.kind)
    if item.calling_since:
        return _doing("running", "generating", "run", item.calling_since[0])
    if item.node:
        return _doing("running", one_line(item.node, longest=80), "run", item.spans[-1].start)
    return _doing("running", "between nodes", "run", item.tries[-1].start if item.tries else None)


def _doing(state: str, words: str, kind: str, since: float | None = None, cause: str = "") -> Document:
    at = None if since is None else _number(since)
    return {"state": state, "words": words, "kind": kind, "since": at, "cause": cause}


def dots(view: RunView, item: ItemView) -> str:
    """How far an item is, one character per stage: `d` done, `n` now, `w` waits, `x` failed here, `h` stands here,
    `-` passed over.

    Stages it has not come to are `.`, and left out at the end: a new stage changes no other item.
    """
    places = {stage: place for place, stage in enumerate(view.stages)}
    marks = ["."] * len(places)
    for stage in view.stages[: places.get(item.resumed_after, -1) + 1]:
        marks[places[stage]] = "d"
    furthest = places.get(item.resumed_after, -1)
    for span in item.spans:
        place = places[span.node]
        furthest = max(furthest, place)
        marks[place] = "d" if span.is_done else "." if span.end is not None else "n"
    for place in range(max(0, furthest)):
        marks[place] = "-" if marks[place] == "." else marks[place]
    if item.spans:
        last = places[item.spans[-1].node]
        if marks[last] == "n" and item.waits_for is not None:
            marks[last] = "w"
        if item.outcome is not None and not item.spans[-1].is_done:
            marks[last] = "x" if item.outcome.is_failure else "h"
    return "".join(marks).rstrip(".")


def key_rows(view: RunView, around: Surroundings) -> list[Document]:
    return [_key_row(view, use, around.key_limits.get(use.name, ())) for use in view.key_uses.values()]


def _key_row(view: RunView, use: KeyUse, limits: Sequence[str]) -> Document:
    state = use.state(view.elapsed)
    until = use.opens_at if state == "cooling" else None
    is_finite = until is not None and math.isfinite(until)
    words = {"free": "free", "held": "in use", "rejected": "rejected"}.get(state, "")
    if state == "cooling":
        left = f", back in {countdown(until - view.elapsed)}" if is_finite and until is not None else ""
        words = f"{one_line(use.reason, longest=60) or 'cooling'}{left}"
    return {
        "name": _text(use.name),
        "provider": _text(use.provider),
        "group": _text(use.group),
        "state": state,
        "words": words,
        "kind": {"free": "good", "held": "run", "cooling": "wait", "rejected": "bad"}[state],
        "until": _number(until) if is_finite else None,
        "held_by": [_text(view.items[item_id].label) for item_id in use.held_by if item_id in view.items],
        "calls": use.calls,
        "limited": use.limited,
        "tokens": use.tokens,
        "cost_usd": _number(use.cost_usd),
        "waited": _number(use.waited),
        "reason": _text(use.reason) if state in ("cooling", "rejected") else "",
        "minutes": [[minute, *numbers] for minute, numbers in sorted(use.minutes.items())],
        "limits": [_text(limit) for limit in limits],
    }


def block(view: RunView, span: Span) -> Document:
    """A span of the timeline."""
    item = view.items[span.item_id]
    end = view.elapsed if span.end is None else span.end
    what = span.node if span.kind == "node" else LEGEND.get(span.kind, span.kind)
    return {
        "id": span.number,
        "slot": span.slot,
        "item": item.id,
        "label": _text(item.label),
        "node": _text(span.node),
        "kind": span.kind if span.kind in LEGEND else "busy",
        "start": _number(span.start),
        "end": None if span.end is None else _number(span.end),
        "words": f"{one_line(what, longest=80)}, {duration(end - span.start)}",
    }


def call_row(call: Call) -> Document:
    words, kind = CALL_WORDS.get(call.outcome, (_text(call.outcome), "dim"))
    return {
        "at": _number(call.at),
        "node": _text(call.node),
        "model": _text(call.model),
        "key": _text(call.key_name),
        "waited": _number(call.waited),
        "seconds": _number(call.seconds),
        "outcome": _text(call.outcome),
        "words": words,
        "kind": kind,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "cost_usd": _number(call.cost_usd),
    }


def item_page(view: RunView, item: ItemView, around: Surroundings) -> Document:
    """What records tell of one item."""
    return {
        "item": item_row(view, item, around),
        "label": _text(item.label),
        "notices": [one_line(notice, longest=_LONGEST_TEXT) for notice in item.notices],
        "attempts": [
            {
                "attempt": attempt.number,
                "started": _number(attempt.start),
                "ended": None if attempt.end is None else _number(attempt.end),
                "reason": one_line(attempt.reason, longest=_LONGEST_TEXT),
                "resumed_after": _text(attempt.resumed_after),
            }
            for attempt in item.tries
        ],
        "nodes": [
            {
                "node": _text(span.node),
                "start": _number(span.start),
                "end": None if span.end is None else _number(span.end),
                "seconds": _number((view.elapsed if span.end is None else span.end) - span.start),
                "usual": None,
            }
            for span in item.spans
        ],
        "calls": [call_row(call) for call in item.calls],
        "traceback": _lines(item.traceback),
    }


def _note_row(place: int, note: Note) -> Document:
    return {"id": place, "at": _number(note.at), "text": one_line(note.text, longest=_LONGEST_TEXT)}


def notice(text: str, hint: str = "", command: str = "") -> Document:
    """Said in place of what is not there, with what to do next."""
    return {"text": text, "hint": hint, "command": command}


def _notice(view: RunView, around: Surroundings) -> Document | None:
    if view.items:
        return None
    if view.is_over:
        hint = "Start it again with the same command." if not around.problem else "Its record is damaged."
        return notice("This run ended before it put its items on record.", hint, around.resume_command)
    return notice("This run is just starting.", "Its items appear as soon as its graph is loaded.")


def project_name(project_dir: str) -> str:
    return project_dir.rstrip("/").rpartition("/")[2]


def _lines(text: str) -> str:
    """Safe to show, and still lines."""
    return clean_block(f"{text}\n".encode(errors="replace"), keep_colour=False).decode(errors="replace").rstrip()


def _text(value: str) -> str:
    return one_line(value, longest=_LONGEST_TEXT)


def _number(value: float | None) -> float | None:
    """To the millisecond; JSON knows no infinity."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, 6 if abs(value) < 1 else 3)
