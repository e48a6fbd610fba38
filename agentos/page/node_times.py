"""How long nodes take, from the records of ended runs; each record is read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from agentos.events import NodeFinished
from agentos.page.home import EndedRun
from agentos.paths import runs_dir
from agentos.records.folders import run_dirs
from agentos.records.runs import AUDIT_NAME, load_run, read_audit

_MOST_RUNS: Final = 30
_LARGEST_AUDIT: Final = 32 << 20


class NodeTimes:
    """Blocking: reads files."""

    def __init__(self) -> None:
        self._by_run: dict[str, dict[str, list[float]]] = {}

    def of_runs(self, ended: Sequence[EndedRun]) -> dict[tuple[str, str], list[float]]:
        """Durations by workflow and node, of the newest of these runs."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for each in ended[:_MOST_RUNS]:
            for node, seconds in self._read(each.run.run_id).items():
                found[each.run.workflow, node] += seconds
        return dict(found)

    def usual(self, project_dir: str, workflow: str) -> dict[str, float]:
        """The median of each node in recent runs of the workflow in this project."""
        found: dict[str, list[float]] = defaultdict(list)
        for run_dir in run_dirs()[:_MOST_RUNS]:
            known = load_run(run_dir)
            if known.wall_seconds is not None and (known.project_dir, known.workflow) == (project_dir, workflow):
                for node, seconds in self._read(run_dir.name).items():
                    found[node] += seconds
        return {node: round(median(seconds), 3) for node, seconds in found.items()}

    def _read(self, run_id: str) -> dict[str, list[float]]:
        if run_id not in self._by_run:
            self._by_run[run_id] = _durations(runs_dir() / run_id)
        return self._by_run[run_id]


def _durations(run_dir: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    try:
        is_small = (run_dir / AUDIT_NAME).stat().st_size <= _LARGEST_AUDIT
    except OSError:
        return {}
    for stamped in read_audit(run_dir, ("node_finished",)) if is_small else ():
        if isinstance(stamped.event, NodeFinished):
            found[stamped.event.node].append(stamped.event.seconds)
    return dict(found)
