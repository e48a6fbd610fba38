"""Workstreams as people and scripts read them. Pure: facts in, lines or plain values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentos.clock import local_minute, stamp
from agentos.reporters.wording import outcome_words
from agentos.text.table import table_lines
from agentos.text.words import duration, one_line
from agentos.workstreams.commands import Made, Overview, Proposal
from agentos.workstreams.reservations import Reservation
from agentos.workstreams.run import WorkstreamResult
from agentos.workstreams.state import Failed, Paused, Running, State, status_word
from agentos.workstreams.wording import event_words, last_event_words, size_words, state_words

_HEADINGS = ("SLUG", "STATE", "BRANCH", "AHEAD", "BEHIND", "SIZE", "LAST EVENT", "TEXT")
_DASHBOARD_HEADINGS = ("SLUG", "STATE", "NODE", "AHEAD", "BEHIND", "CHANGES", "SIZE", "LAST EVENT")
_RESULT_HEADINGS = ("SLUG", "STATUS", "TIME", "BRANCH", "HEAD", "REASON")
# What a narrow window does without, the first one first.
_EXPENDABLE = ("BRANCH", "TEXT", "SIZE", "BEHIND", "AHEAD", "LAST EVENT")
DASHBOARD_EXPENDABLE = ("SIZE", "BEHIND", "AHEAD", "CHANGES", "LAST EVENT", "NODE")
_RESULT_EXPENDABLE = ("BRANCH", "HEAD", "TIME")


def list_lines(overviews: Sequence[Overview], columns: int) -> list[str]:
    """One workstream per line, no wider than the window."""
    rows = [_HEADINGS, *(_list_row(overview) for overview in overviews)]
    return table_lines(rows, columns, expendable=_EXPENDABLE)


def _list_row(overview: Overview) -> tuple[str, ...]:
    workstream = overview.workstream
    return (
        workstream.slug,
        state_words(workstream.state),
        workstream.branch,
        _number(overview.ahead),
        _number(overview.behind),
        size_words(overview.size_bytes),
        last_event_words(workstream),
        one_line(workstream.text, 60),
    )


def dashboard_rows(overviews: Sequence[Overview], nodes: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Headings and a row each; `nodes` says where the running ones are."""
    return [_DASHBOARD_HEADINGS, *(_dashboard_row(each, nodes.get(each.workstream.slug, "")) for each in overviews)]


def _dashboard_row(overview: Overview, node: str) -> tuple[str, ...]:
    workstream = overview.workstream
    at = workstream.state.node or "" if isinstance(workstream.state, Paused) else one_line(node, 40)
    changes = len(overview.unsaved.uncommitted) if overview.unsaved else 0
    return (
        workstream.slug,
        state_words(workstream.state),
        at,
        _number(overview.ahead),
        _number(overview.behind),
        str(changes or ""),
        size_words(overview.size_bytes),
        last_event_words(workstream),
    )


def status_lines(
    overview: Overview, history: Sequence[Mapping[str, Any]], reservations: Sequence[Reservation]
) -> list[str]:
    """Everything about one workstream."""
    workstream, unsaved = overview.workstream, overview.unsaved
    facts = [
        ("state", _state_in_full(workstream.state)),
        ("branch", f"{workstream.branch}{f' at {overview.head[:12]}' if overview.head else ''}"),
        ("base", f"{one_line(workstream.base)}{_distance(overview)}"),
        ("worktree", str(workstream.path) if workstream.path else "missing: the next run recreates it"),
        ("size", size_words(overview.size_bytes)),
        ("open work", unsaved.words() if unsaved and not unsaved.is_nothing else ""),
        ("holds", ", ".join(f"{each.variable}={each.value}" for each in reservations)),
        ("text", one_line(workstream.text)),
    ]
    lines = [workstream.slug, *(f"  {name}: {value}" for name, value in facts if value)]
    return [*lines, *(f"  {_history_line(entry)}" for entry in history)]


def reservation_lines(reservations: Sequence[Reservation]) -> list[str]:
    """One reservation per line."""
    rows = [(each.slug, each.variable, each.kind, each.value) for each in reservations]
    return table_lines([("SLUG", "VARIABLE", "KIND", "VALUE"), *rows])


def _distance(overview: Overview) -> str:
    if overview.ahead is None:
        return ""
    return f", {overview.ahead} ahead, {overview.behind} behind"


def _history_line(entry: Mapping[str, Any]) -> str:
    try:
        when = local_minute(datetime.fromisoformat(str(entry["time"])))
    except ValueError:
        when = "at an unknown time"
    states = f"{entry.get('from') or 'nothing'} -> {entry.get('to') or 'nothing'}"
    detail = one_line(str(entry.get("detail", "")), 80)
    return f"{when} {event_words(str(entry.get('event')))}: {states}{f' ({detail})' if detail else ''}"


def result_lines(results: Sequence[WorkstreamResult], columns: int) -> list[str]:
    """What came of each workstream of a run."""
    rows = [_RESULT_HEADINGS, *(_result_row(result) for result in results)]
    return table_lines(rows, columns, expendable=_RESULT_EXPENDABLE)


def _result_row(result: WorkstreamResult) -> tuple[str, ...]:
    return (
        result.slug,
        outcome_words(result.outcome),
        duration(result.seconds) if result.started else "",
        result.branch,
        result.head[:12],
        one_line(result.error, 120),
    )


def proposal_lines(proposals: Sequence[Proposal], *, removed: Collection[str] | None = None) -> list[str]:
    """What cleanup removed, or without `removed` would remove, and why not the others."""
    verb = "would remove" if removed is None else "removed"
    gone = [each for each in proposals if each.is_safe and (removed is None or each.slug in removed)]
    removable = [f"{verb} {each.slug}: {each.reason}" for each in gone]
    kept = [f"keep {each.slug}: {each.reason}" for each in proposals if not each.is_safe]
    return [*removable, *kept] or ["No workstreams."]


def as_json(overview: Overview) -> dict[str, Any]:
    """A workstream for scripts."""
    workstream, unsaved = overview.workstream, overview.unsaved
    return {
        "slug": workstream.slug,
        **state_json(workstream.state),
        "text": workstream.text,
        "branch": workstream.branch,
        "head": overview.head,
        "base": workstream.base,
        "path": str(workstream.path) if workstream.path else None,
        "ahead": overview.ahead,
        "behind": overview.behind,
        "size_bytes": overview.size_bytes,
        "uncommitted": list(unsaved.uncommitted) if unsaved else [],
        "unmerged_commits": unsaved.unmerged_commits if unsaved else None,
        "created_at": stamp(workstream.created_at, "microseconds"),
        "changed_at": stamp(workstream.changed_at, "microseconds"),
        "last_event": workstream.last_event,
    }


def more_json(reservations: Sequence[Reservation], history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `status` adds to `as_json`."""
    return {"leases": _reservations_json(reservations), "history": list(history)}


def made_json(made: Made) -> dict[str, Any]:
    """A workstream that was just made."""
    provided = [{"path": each.path, "problem": each.problem} for each in made.provided]
    return {
        **as_json(Overview(made.workstream)),
        "leases": _reservations_json(made.reservations),
        "provided": provided,
        "was_there": made.was_there,
    }


def state_json(state: State) -> dict[str, Any]:
    return {"state": status_word(state), **_state_details(state)}


def _reservations_json(reservations: Sequence[Reservation]) -> dict[str, Any]:
    return {each.variable: each.as_json()["value"] for each in reservations}


def _state_details(state: State) -> dict[str, Any]:
    match state:
        case Running(run_id=run_id, pause_requested=pause_requested):
            return {"run_id": run_id, "pause_requested": pause_requested}
        case Paused(node=node):
            return {"node": node}
        case Failed(reason=reason):
            return {"reason": reason}
        case _:
            return {}


def _state_in_full(state: State) -> str:
    match state:
        case Running(run_id=run_id, pause_requested=pause_requested):
            return f"running in run {run_id}{', pauses at the next node' if pause_requested else ''}"
        case Paused(node=str(node)):
            return f"paused before {one_line(node)}"
        case Failed(reason=reason):
            return f"failed: {one_line(reason)}"
        case _:
            return status_word(state)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
