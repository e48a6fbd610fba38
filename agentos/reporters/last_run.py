"""The newest run that an item was in, from the records of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from agentos.outcomes import Cause
from agentos.records.folders import read_summary, run_dirs
from agentos.records.runs import load_run, read_audit
from agentos.records.summary import ItemSummary, RunSummary
from agentos.reporters.summary import Summary

_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class LastRun:
    run_dir: Path
    summary: RunSummary
    item: ItemSummary


def last_run(project_dir: Path, workflows: Collection[str], item_id: str) -> LastRun | None:
    """The newest run of any of these workflows in which the item ended somehow."""
    return last_runs(project_dir, lambda workflow: workflow in workflows, [item_id]).get(item_id)


def last_runs(project_dir: Path, is_meant: Callable[[str], bool], item_ids: Collection[str]) -> dict[str, LastRun]:
    """The newest run of each item in which it ended somehow, among the workflows that are meant.

    What a run left to another one that had the item is no end of it.
    """
    found: dict[str, LastRun] = {}
    for run_dir in run_dirs()[:_MOST_RUNS]:
        known = load_run(run_dir)
        if len(found) == len(item_ids) or known.project_dir != str(project_dir) or not is_meant(known.workflow):
            continue
        summary = read_summary(run_dir) or _summary_so_far(run_dir)
        for item in summary.items:
            if item.id in item_ids and item.cause is not Cause.HELD:
                found.setdefault(item.id, LastRun(run_dir, summary, item))
    return found


def _summary_so_far(run_dir: Path) -> RunSummary:
    so_far = Summary()
    for stamped in read_audit(run_dir, kinds=("run_started", "item_ended")):
        so_far.add(stamped)
    return so_far.result()
