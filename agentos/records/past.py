"""What items took in recent runs, by which the next run is judged: from summaries alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agentos.records.folders import SUMMARY_NAME, read_summary, run_dirs
from agentos.records.summary import ItemSummary, RunSummary

LARGEST_SUMMARY_FOR_ESTIMATES = 4 * 1024 * 1024
BYTES_FOR_ESTIMATES = 16 * 1024 * 1024
"""How much of the summaries of all runs, newest first, is read to find those of one project and workflow."""
_RUNS_FOR_ESTIMATES = 20
DURATIONS_FOR_ESTIMATES = 500


def past_durations(project_dir: Path, workflow: str, models: Sequence[str] = (), *, before: str = "") -> list[float]:
    """Seconds that items of this workflow took in recent runs of this project, newest run first. Cheap.

    With models, only of runs with these very ones: a rehearsal takes a second for what a model takes minutes for.
    `before` a run, only of runs that began earlier: a run is not judged by itself.
    """
    items = _past_items(project_dir, workflow, before)
    return [item.seconds for item, called in items if not models or set(called) == set(models)]


def past_costs(project_dir: Path, workflow: str, models: Sequence[str]) -> list[float]:
    """Dollars that such items cost with these very models. Empty when the price of some call is not known."""
    items = [item for item, called in _past_items(project_dir, workflow) if set(called) == set(models)]
    is_priced = all(item.cost_usd or not item.input_tokens + item.output_tokens for item in items)
    return [item.cost_usd for item in items] if is_priced else []


def _past_items(project_dir: Path, workflow: str, before: str = "") -> list[tuple[ItemSummary, tuple[str, ...]]]:
    """Items that recent runs worked on to some end, each with the models of its run."""
    items: list[tuple[ItemSummary, tuple[str, ...]]] = []
    for summary in islice(_past_summaries(str(project_dir.resolve()), workflow, before), _RUNS_FOR_ESTIMATES):
        items += [
            (item, summary.models) for item in summary.items if item.attempts and not item.outcome.is_unfinished
        ]
        if len(items) >= DURATIONS_FOR_ESTIMATES:
            break
    return items[:DURATIONS_FOR_ESTIMATES]


def _past_summaries(project: str, workflow: str, before: str) -> Iterator[RunSummary]:
    """Of runs of this project and workflow, newest first. However many others are newer, up to a bound on work."""
    left = BYTES_FOR_ESTIMATES
    for run_dir in run_dirs():
        if before and run_dir.name >= before:
            continue
        try:
            size = (run_dir / SUMMARY_NAME).stat().st_size
        except OSError:
            continue
        if size > LARGEST_SUMMARY_FOR_ESTIMATES:
            continue
        left -= size
        if left < 0:
            return
        summary = read_summary(run_dir)
        if summary and summary.workflow == workflow and str(Path(summary.project_dir).resolve()) == project:
            yield summary
