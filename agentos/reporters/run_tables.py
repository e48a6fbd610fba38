"""Past and live runs as people read them: the list of runs, and one run in detail. Pure: records in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from agentos.clock import local_minute
from agentos.records.runs import Run
from agentos.records.summary import ItemSummary, RunSummary
from agentos.reporters.progress import standing
from agentos.reporters.summary import summary_lines
from agentos.reporters.wording import LabelOf, counts_in_words, labels_with, outcome_words
from agentos.text.table import cut, table_lines
from agentos.text.words import counted, duration, one_line

_RUN_HEADINGS = ("RUN", "STATE", "ENDED", "WORKFLOW", "STARTED", "TIME", "RESULT", "PROJECT")
# What a narrow window does without, the first one first.
_EXPENDABLE = ("PROJECT", "TIME", "STARTED", "WORKFLOW", "RESULT", "ENDED", "STATE")
_ITEM_HEADINGS = ("ITEM", "OUTCOME", "TIME", "", "NODE", "REASON")


def list_lines(runs: Sequence[Run], columns: int) -> list[str]:
    """The runs as a table no wider than the window."""
    return table_lines([_RUN_HEADINGS, *(_run_row(run) for run in runs)], columns, expendable=_EXPENDABLE)


def show_lines(run: Run, summary: RunSummary, columns: int, now: Sequence[str] = ()) -> list[str]:
    """One run in words no wider than the window: what it is, how it stands `now`, its items, how it went."""
    heading = [
        f"{one_line(run.workflow) or 'nothing'} in {one_line(run.project_dir)}, started {_local_time(run.started)}",
        standing(run.counts, run.total),
    ]
    # Ids, paths and commands are there to copy: a terminal may wrap those, nothing cuts them.
    return [
        f"Run {run.run_id}: {run.state}",
        *(cut(line, columns) for line in (*heading, *now)),
        *_item_table(summary, columns),
        *summary_lines(summary, run.run_dir),
    ]


def _run_row(run: Run) -> tuple[str, ...]:
    return (
        run.run_id,
        run.state,
        f"{sum(run.counts.values())}/{run.total}",
        one_line(run.workflow, longest=30),
        _local_time(run.started),
        "" if run.wall_seconds is None else duration(run.wall_seconds),
        counts_in_words(run.counts) if run.counts else "",
        one_line(Path(run.project_dir).name, longest=40),
    )


def _item_table(summary: RunSummary, columns: int) -> list[str]:
    if not summary.items:
        return []
    label_of = labels_with(summary.label_prefix)
    rows = [_ITEM_HEADINGS, *(_item_row(item, label_of) for item in summary.items)]
    if not any(item.cluster_node for item in summary.items):
        # Where there is one machine it is not worth a column.
        rows = [(*row[:-2], row[-1]) for row in rows]
    return table_lines(rows, columns)


def _item_row(item: ItemSummary, label_of: LabelOf) -> tuple[str, ...]:
    return (
        one_line(label_of(item.id), longest=140),
        outcome_words(item.outcome),
        duration(item.seconds),
        counted(item.attempts, "attempt") if item.attempts > 1 else "",
        one_line(item.cluster_node, longest=40),
        one_line(item.reason, longest=200),
    )


def _local_time(stamp: str) -> str:
    """A record's UTC time on the user's clock."""
    try:
        return local_minute(datetime.fromisoformat(stamp))
    except ValueError:
        return "at an unknown time"
