"""What a run would do, without doing any of it: no process, no file, no connection."""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentos.cli.preflight import Preflight
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, Standing
from agentos.engine.claims import claim_name, held_here
from agentos.engine.done_notes import StillDone, notes_of
from agentos.engine.plan import Item, Plan, item_hash
from agentos.errors import ExitCode
from agentos.records.past import past_durations
from agentos.reporters.preflight_words import preflight_words
from agentos.text.words import at_a_time, duration
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
    known = None if fresh else _Known(workflow.name, project_dir, still_done)
    claims = {item.id: claim_name(workflow.name, item.id) for item in plan.items}
    held = held_here(project_dir, claims.values())
    entries = [
        _entry(item, known)
        | {
            "reason": str(reasons[item.id]) if item.id in reasons else None,
            "is_held_by_another_run": claims[item.id] in held,
        }
        for item in plan.items
    ]
    # Without its models nothing is known of how long a run takes.
    typical = [] if preflight.problem else past_durations(project_dir, workflow.name, preflight.found.models)
    working = _working(plan, entries, reasons)
    exit_code = _exit_code(working, entries, skipped)
    estimate = _estimate_seconds(plan, parallel, working, sum(typical) / len(typical)) if typical else None
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
        return _verdict(preflight, entries, exit_code)
    label_prefix = workflow.label_prefix
    lines = [f"Dry run mode: {at_a_time(len(entries), parallel)}. Nothing is started or written."]
    lines += _numbered(entries, reasons, plan, label_prefix)
    lines += [_estimate_words(estimate, len(typical))] if entries and preflight.problem is None else []
    lines += [f"Skipped: {label_prefix}{item_id} ({reason})" for item_id, reason in skipped]
    if entries and preflight.problem is None:
        lines.append(preflight_words(preflight.found))
    lines += notes
    sys.stdout.write("\n".join(lines) + "\n")
    return _verdict(preflight, entries, exit_code)


def _verdict(preflight: Preflight, entries: Sequence[object], exit_code: int) -> int:
    """Raises what a run would, after the list of what it would have done; nothing to do needs no key."""
    if preflight.problem is None or not entries:
        return exit_code
    sys.stdout.flush()
    raise preflight.problem


def _exit_code(
    working: Collection[str], entries: Sequence[Mapping[str, Any]], skipped: Sequence[tuple[str, Reason]]
) -> int:
    """As a run would end that does nothing; where there is work, how it will end is not known."""
    if working:
        return ExitCode.OK
    if any(entry["is_held_by_another_run"] or not entry["done_in_run"] for entry in entries):
        return ExitCode.ITEM_FAILED
    return ExitCode.NEEDS_ATTENTION if any(why.kind.needs_person for _, why in skipped) else ExitCode.OK


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
    return not found.is_untouched and found.input_hash not in (None, item_hash(item))


def _numbered(
    entries: list[dict[str, Any]], reasons: Mapping[str, Reason], plan: Plan, label_prefix: str
) -> list[str]:
    width = len(str(len(entries)))
    return [
        f"  {number:>{width}}. {label_prefix}{_words(entry, reasons.get(entry['id']), plan.depends_on[entry['id']])}"
        for number, entry in enumerate(entries, start=1)
    ]


def _estimate_words(estimate: float | None, known: int) -> str:
    if estimate == 0:
        return "Estimate: none of these would run."
    if estimate is None:
        return "No estimate: no recent run like this one finished an item in this project."
    return f"Estimate: about {duration(estimate)}, from {known} past item{'' if known == 1 else 's'}."


def _words(entry: dict[str, Any], reason: Reason | None, waits_for: Sequence[str]) -> str:
    """`waits_for` is what the run itself does first: it waits for nothing else that the item depends on."""
    notes = []
    if entry["is_held_by_another_run"]:
        notes.append("another run has it: would be skipped")
    elif entry["done_in_run"]:
        notes.append(f"already done in run {entry['done_in_run']}: would be skipped")
    elif entry["input_changed"]:
        notes.append("input or configuration changed since its checkpoint: would fail without --fresh")
    elif entry["resumes_after"]:
        notes.append(f"resumes after {entry['resumes_after']}")
    if reason and not (notes and reason.kind is ReasonKind.UNFINISHED):
        notes.append(str(reason))
    if waits_for:
        notes.append(f"after {', '.join(waits_for)}")
    if entry["priority"]:
        notes.append(f"priority {entry['priority']}")
    return str(entry["id"]) + (f"  ({'; '.join(notes)})" if notes else "")


def _working(plan: Plan, entries: Sequence[Mapping[str, Any]], reasons: Mapping[str, Reason]) -> set[str]:
    """Items that take time: not those that are done, nor those that another run has or that would fail at once, nor
    what waits for one of these."""
    working: set[str] = set()
    failing: set[str] = set()
    for item, entry in zip(plan.items, entries, strict=True):
        if entry["done_in_run"] and not entry["is_held_by_another_run"]:
            continue
        reason = reasons.get(item.id)
        is_unusable = entry["input_changed"] or (reason is not None and reason.kind.is_refusal)
        would_fail = (
            entry["is_held_by_another_run"] or is_unusable or not failing.isdisjoint(plan.depends_on[item.id])
        )
        (failing if would_fail else working).add(item.id)
    return working


def _estimate_seconds(plan: Plan, parallel: int, working: Container[str], typical_seconds: float) -> float:
    """Items in plan order, each as soon as a place is free and its dependencies are done."""
    places = [0.0] * min(parallel, max(1, len(plan.items)))
    ends: dict[str, float] = {}
    for item in plan.items:
        free_at = heapq.heappop(places)
        rivals = [other for other in ends if _are_rivals(plan, item.id, other)] if plan.exclusive else []
        ready_at = max((ends[d] for d in (*plan.depends_on[item.id], *rivals)), default=0.0)
        ends[item.id] = max(free_at, ready_at) + (typical_seconds if item.id in working else 0.0)
        heapq.heappush(places, ends[item.id])
    return max(ends.values(), default=0.0)


def _are_rivals(plan: Plan, item_id: str, other: str) -> bool:
    return other in plan.exclusive.get(item_id, ()) or item_id in plan.exclusive.get(other, ())
