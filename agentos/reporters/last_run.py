"""The newest run that an item was in, from the records of runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agentos.records.format import ItemSummary, RunSummary
from agentos.records.runs import load_run, read_audit, read_summary, run_dirs
from agentos.reporters.summary import Summary

_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class LastRun:
    run_dir: Path
    summary: RunSummary
    item: ItemSummary


def last_run(project_dir: Path, workflows: Collection[str], item_id: str) -> LastRun | None:
    """The newest run of any of these workflows in which the item ended somehow."""
    for run_dir in run_dirs()[:_MOST_RUNS]:
        known = load_run(run_dir)
        if known.workflow not in workflows or known.project_dir != str(project_dir):
            continue
        summary = read_summary(run_dir) or _summary_so_far(run_dir)
        found = next((item for item in summary.items if item.id == item_id), None)
        if found is not None:
            return LastRun(run_dir, summary, found)
    return None


def _summary_so_far(run_dir: Path) -> RunSummary:
    so_far = Summary()
    for stamped in read_audit(run_dir, kinds=("run_started", "item_ended")):
        so_far.add(stamped)
    return so_far.result()
