"""What a run would do, without doing any of it: no process, no file, no connection."""

from __future__ import annotations

import heapq
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentos.cli.preflight import Preflight
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, Standing
from agentos.engine.done_notes import StillDone, notes_of
from agentos.engine.plan import Item, Plan, input_hash, item_hash
from agentos.errors import ExitCode
from agentos.records.runs import past_durations
from agentos.reporters.wording import preflight_words
from agentos.text.words import duration
from agentos.workflows.pending import Reason, ReasonKind
from agentos.workflows.registry import Workflow


def show(
    plan: Plan,
    workflow: Workflow,
    project_dir: Path,
    *,
    parallel: int,
    fresh: bool,
    as_json: bool,
    reasons: Mapping[str, Reason],
    skipped: Sequence[tuple[str, Reason]],
    notes: Sequence[str],
    details: Mapping[str, Any],
    preflight: Preflight,
    still_done: StillDone,
) -> int:
    """Print the plan in the order items would start. Returns the exit code.

    `notes` are further lines for people, `details` further fields of the JSON document.
    """
    typical = past_durations(project_dir, workflow.name)
    estimate = _estimate_seconds(plan, parallel, statistics.fmean(typical)) if typical else None
    known = None if fresh else _Known(workflow.name, project_dir, still_done)
    entries = [
        _entry(item, known) | {"reason": str(reasons[item.id]) if item.id in reasons else None} for item in plan.items
    ]
    if as_json:
        document = {
            "workflow": workflow.name,
            "project_dir": str(project_dir),
            "count": len(entries),
            "parallel": parallel,
            "estimated_seconds": None if estimate is None else round(estimate, 1),
            "preflight": asdict(preflight.found) | {"problem": str(preflight.problem or "") or None},
            "items": entries,
            "skipped": [{"id": item_id, "reason": str(reason)} for item_id, reason in skipped],
            **details,
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return _verdict(preflight, entries)
    label_prefix = workflow.label_prefix
    lines = _lines(entries, reasons, parallel, estimate, len(typical), label_prefix)
    lines += [f"Skipped: {label_prefix}{item_id} ({reason})" for item_id, reason in skipped]
    if entries and preflight.problem is None:
        lines.append(preflight_words(preflight.found))
    lines += notes
    sys.stdout.write("\n".join(lines) + "\n")
    return _verdict(preflight, entries)


def _verdict(preflight: Preflight, entries: Sequence[object]) -> int:
    """Raises what a run would, after the list of what it would have done; nothing to do needs no key."""
    if preflight.problem is None or not entries:
        return ExitCode.OK
    sys.stdout.flush()
    raise preflight.problem


class _Known:
    """What earlier runs of the workflow left behind."""

    def __init__(self, workflow: str, project_dir: Path, still_done: StillDone) -> None:
        self._workflow = workflow
        self._store = store_for(project_dir)
        self._notes = notes_of(project_dir, workflow)
        self._still_done = still_done

    def standing(self, item: Item) -> Standing | None:
        return self._store.peek(ItemRef(self._workflow, item.id))

    def done_in_run(self, item: Item) -> str | None:
        done = self._notes.done(item.id, item_hash(item))
        return done.run_id if done and self._still_done(item, done) else None


def _entry(item: Item, known: _Known | None) -> dict[str, Any]:
    found = known.standing(item) if known else None
    return {
        "id": item.id,
        "priority": item.priority,
        "depends_on": list(item.depends_on),
        "resumes_after": found.resumes_after if found else None,
        "has_checkpoint": found is not None,
        "done_in_run": known.done_in_run(item) if known else None,
        "input_changed": bool(found and _is_for_another_input(found, item)),
    }


def _is_for_another_input(found: Standing, item: Item) -> bool:
    return not found.is_untouched and found.input_hash not in (None, input_hash(item.input))


def _lines(
    entries: list[dict[str, Any]],
    reasons: Mapping[str, Reason],
    parallel: int,
    estimate: float | None,
    known: int,
    label_prefix: str,
) -> list[str]:
    count = f"{len(entries)} item{'' if len(entries) == 1 else 's'}"
    lines = [f"Dry run mode: {count}, {parallel} at a time. Nothing is started or written."]
    width = len(str(len(entries)))
    lines += [
        f"  {number:>{width}}. {label_prefix}{_words(entry, reasons.get(entry['id']))}"
        for number, entry in enumerate(entries, start=1)
    ]
    if not entries:
        return lines
    if estimate is None:
        lines.append("No estimate: no recent run of this workflow in this project finished an item.")
    else:
        lines.append(f"Estimate: about {duration(estimate)}, from {known} past item{'' if known == 1 else 's'}.")
    return lines


def _words(entry: dict[str, Any], reason: Reason | None) -> str:
    notes = []
    if entry["done_in_run"]:
        notes.append(f"already done in run {entry['done_in_run']}: would be skipped")
    elif entry["input_changed"]:
        notes.append("input changed since its checkpoint: would fail without --fresh")
    elif entry["resumes_after"]:
        notes.append(f"resumes after {entry['resumes_after']}")
    if reason and not (notes and reason.kind is ReasonKind.UNFINISHED):
        notes.append(str(reason))
    if entry["depends_on"]:
        notes.append(f"after {', '.join(entry['depends_on'])}")
    if entry["priority"]:
        notes.append(f"priority {entry['priority']}")
    return str(entry["id"]) + (f"  ({'; '.join(notes)})" if notes else "")


def _estimate_seconds(plan: Plan, parallel: int, typical_seconds: float) -> float:
    """Items in plan order, each as soon as a place is free and its dependencies are done."""
    places = [0.0] * min(parallel, max(1, len(plan.items)))
    ends: dict[str, float] = {}
    for item in plan.items:
        free_at = heapq.heappop(places)
        rivals = [other for other in ends if _are_rivals(plan, item.id, other)] if plan.exclusive else []
        ready_at = max((ends[d] for d in (*plan.depends_on[item.id], *rivals)), default=0.0)
        ends[item.id] = max(free_at, ready_at) + typical_seconds
        heapq.heappush(places, ends[item.id])
    return max(ends.values(), default=0.0)


def _are_rivals(plan: Plan, item_id: str, other: str) -> bool:
    return other in plan.exclusive.get(item_id, ()) or item_id in plan.exclusive.get(other, ())
