"""All runs of the home in rows, with what is remembered of ended ones; and the user's keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentos.dashboard.payload import count_rows, notice, project_name
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.keys.credentials import load_credentials
from agentos.keys.memory import LimitMemory
from agentos.keys.overview import key_rows
from agentos.keys.pool import KeyView
from agentos.records.format import RunSummary
from agentos.records.runs import SUMMARY_NAME, Run, load_run, read_summary, run_dirs
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


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What does not change any more."""

    run: Run
    summary: RunSummary


class Home:
    """Looks at the runs of the home; an ended one is read once. Blocking: call it from a thread."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, EndedRun]] = {}

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
        return run_row(load_run(run_dir), None)

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


def no_runs() -> dict[str, Any]:
    command = Hint.DEMO.line(folder="agentos-demo")
    return notice("There are no runs yet.", "See it work, without a key and without cost:", command)


def keys_document() -> dict[str, Any]:
    """The user's keys by name, with what earlier runs learned of them."""
    try:
        credentials = load_credentials()
    except UsageError as error:
        return {"keys": [], "notice": notice("The keys cannot be read.", one_line(str(error), longest=1000))}
    rows = [_key_row(row) for row in key_rows(credentials, LimitMemory())]
    command = Hint.ADD_KEY.line(provider="google")
    return {"keys": rows, "notice": None if rows else notice("There are no keys.", "Add one:", command)}


def _key_row(row: KeyView) -> dict[str, Any]:
    state, words, kind = _KEY_STATES.get(row.state, ("unknown", row.state, "dim"))
    return {
        "name": one_line(row.name, longest=100),
        "provider": one_line(row.provider, longest=60),
        "group": one_line(row.group, longest=100),
        "state": state,
        "words": words,
        "kind": kind,
        "until": None,
        "held_by": [],
        "calls": row.calls,
        "limited": 0,
        "tokens": 0,
        "cost_usd": 0.0,
        "waited": 0.0,
        "reason": one_line(row.reason, longest=200),
        "minutes": [],
        "limits": [],
    }
