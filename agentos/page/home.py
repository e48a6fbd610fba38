"""All runs of the home in rows, with what is remembered of ended ones; and the user's keys."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentos.dashboard.payload import STATE_NAMES, Surroundings, count_rows, key_rows, notice, project_name
from agentos.dashboard.view import RunView
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.keys.credentials import load_credentials
from agentos.keys.memory import LimitMemory
from agentos.keys.overview import key_rows as known_keys
from agentos.keys.overview import learned_limits
from agentos.keys.pool import KeyView
from agentos.records.folders import SUMMARY_NAME, read_summary, run_dirs
from agentos.records.runs import AUDIT_NAME, Run, is_live, load_run
from agentos.records.summary import RunSummary
from agentos.text.words import one_line

MOST_RUNS: Final = 200
_STATES: Final = {
    "live": ("running", "Running", "run"),
    "finished": ("done", "Done", "good"),
    "failed": ("done", "Done", "bad"),
    "interrupted": ("done", "Stopped", "warn"),
    "unfinished": ("lost", "Coordinator lost", "bad"),
}
_KEY_STATES: Final = {
    "available": ("free", "free", "good"),
    "reserved": ("held", "in use", "run"),
    "rate_limited": ("cooling", "rate-limited", "wait"),
    "out_of_quota": ("cooling", "out of quota", "warn"),
    "rejected": ("rejected", "rejected", "bad"),
}
_GRAVITY: Final = ("free", "held", "cooling", "rejected")
"""States of keys, what can still be done with one first."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What does not change any more."""

    run: Run
    summary: RunSummary


class Home:
    """Looks at the runs of the home, and reads what has changed. Blocking: call it from a thread."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, EndedRun]] = {}
        self._so_far: dict[str, tuple[tuple[int, bool], Run]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """The newest runs first."""
        return [self._row(run_dir) for run_dir in run_dirs()[:MOST_RUNS]]

    def ended(self) -> list[EndedRun]:
        """The newest first; those without a readable summary are not among them."""
        found = (self._read(run_dir) for run_dir in run_dirs()[:MOST_RUNS])
        return [each for each in found if each is not None]

    def ended_run(self, run_id: str) -> EndedRun | None:
        return next((each for each in self.ended() if each.run.run_id == run_id), None)

    def _row(self, run_dir: Path) -> dict[str, Any]:
        ended = self._read(run_dir)
        if ended is not None:
            return run_row(ended.run, ended.summary)
        return run_row(self._read_so_far(run_dir), None)

    def _read_so_far(self, run_dir: Path) -> Run:
        """A record that has not grown is not read again: a home may have hundreds of killed runs."""
        try:
            size = (run_dir / AUDIT_NAME).stat().st_size
        except OSError:
            size = 0
        mark = size, is_live(run_dir)
        known = self._so_far.get(run_dir.name)
        if known is None or known[0] != mark:
            known = self._so_far[run_dir.name] = mark, load_run(run_dir)
        return known[1]

    def _read(self, run_dir: Path) -> EndedRun | None:
        try:
            changed = (run_dir / SUMMARY_NAME).stat().st_mtime_ns
        except OSError:
            return None
        known = self._ended.get(run_dir.name)
        if known is None or known[0] != changed:
            summary = read_summary(run_dir)
            if summary is None:
                return None
            known = self._ended[run_dir.name] = changed, EndedRun(load_run(run_dir), summary)
        return known[1]


def run_row(run: Run, summary: RunSummary | None) -> dict[str, Any]:
    state, words, kind = _STATES[run.state]
    items = summary.items if summary else ()
    return {
        "run": run.run_id,
        "workflow": one_line(run.workflow, longest=60),
        "project": one_line(project_name(run.project_dir), longest=80),
        "project_dir": one_line(run.project_dir),
        "started": one_line(run.started, longest=40),
        "state": state,
        "words": words,
        "kind": "warn" if kind == "good" and run.exit_code else kind,
        "is_live": run.state == "live",
        "total": run.total,
        "ended": sum(run.counts.values()),
        "counts": count_rows(run.counts),
        "wall_seconds": run.wall_seconds,
        "cost_usd": round(sum(item.cost_usd for item in items), 6),
        "speed_up": (summary.speed_up or None) if summary else None,
        "exit_code": run.exit_code,
        "needs": sum(
            number
            for outcome, number in run.counts.items()
            if (outcome.needs_person or outcome.is_failure) and not outcome.never_ran
        ),
        "problem": "" if run.workflow or run.state == "live" else "its record does not say what it was",
    }


def live_facts(view: RunView) -> dict[str, Any]:
    """What changes of a run's row while it is under way, beside how its items ended."""
    state, kind = STATE_NAMES[view.state]
    return {"state": state, "words": view.state.value, "kind": kind, "cost_usd": round(view.cost_usd, 6)}


def no_runs() -> dict[str, Any]:
    command = Hint.DEMO.line(folder="agentos-demo")
    return notice("There are no runs yet.", "See it work, without a key and without cost:", command)


def keys_in_use(view: RunView) -> list[dict[str, Any]]:
    """What a run under way does with its keys; `until` in seconds from now, as in the rows of `keys_document`."""
    rows = key_rows(view, Surroundings())
    return [row | {"until": row["until"] and max(0.0, row["until"] - view.elapsed)} for row in rows]


def keys_document(in_use: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The user's keys by name, with what earlier runs learned of them and what runs under way do with them."""
    try:
        credentials = load_credentials()
    except UsageError as error:
        return {"keys": [], "notice": notice("The keys cannot be read.", one_line(str(error), longest=1000))}
    memory, now = LimitMemory(), time.time()
    limits = learned_limits(credentials, memory)
    rows = [_key_row(row, limits.get(row.name, []), now) for row in known_keys(credentials, memory)]
    rows = [_with_use(row, [use for use in in_use if use["name"] == row["name"]]) for row in rows]
    command = Hint.ADD_KEY.line(provider="google")
    return {"keys": rows, "notice": None if rows else notice("There are no keys.", "Add one:", command)}


def _with_use(row: dict[str, Any], uses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A key as the run sees it that can do the least with it; of its calls, what runs under way have on record."""
    if not uses:
        return row
    worst = max([*uses, row], key=lambda each: _GRAVITY.index(each["state"]))
    sums = {name: sum(use[name] for use in uses) for name in ("calls", "limited", "tokens", "cost_usd", "waited")}
    return {
        **row,
        **{name: worst[name] for name in ("state", "words", "kind", "until", "reason")},
        **sums,
        "calls": max(row["calls"], sums["calls"]),
        "held_by": [label for use in uses for label in use["held_by"]],
    }


def _key_row(row: KeyView, limits: list[str], now: float) -> dict[str, Any]:
    """`until` is in seconds from now: the page counts down from when it asked. Nobody counts 429s over all runs."""
    state, words, kind = _KEY_STATES.get(row.state, ("cooling", row.state.replace("_", " "), "warn"))
    return {
        "name": one_line(row.name, longest=100),
        "provider": one_line(row.provider, longest=60),
        "group": one_line(row.group, longest=100),
        "state": state,
        "words": words,
        "kind": kind,
        "until": None if row.until is None or state != "cooling" else round(max(0.0, row.until - now), 1),
        "held_by": [],
        "calls": row.calls,
        "limited": None,
        "tokens": 0,
        "cost_usd": 0.0,
        "waited": 0.0,
        "reason": one_line(row.reason, longest=200),
        "minutes": [],
        "limits": [one_line(limit, longest=200) for limit in limits],
    }
