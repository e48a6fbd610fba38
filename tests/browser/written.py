"""Runs in a home that were never run: records as a coordinator writes them, for what is slow or rare in real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentos.clock import stamp
from agentos.events import Event, Stamped
from agentos.records.runs import hold_run_lock
from agentos.reporters.audit import AuditReporter
from agentos.reporters.summary import SummaryReporter


@contextmanager
def written_run(home: Path, events: Sequence[Event], *, number: int = 1, is_live: bool = False) -> Iterator[str]:
    """Its id. One record per second, the last one now; it lives as long as the block lasts."""
    run_id = f"20261118-021500-{number:06}"
    run_dir = home / "logs" / "parallel" / run_id
    run_dir.mkdir(parents=True, mode=0o700)
    lock = hold_run_lock(run_dir) if is_live else None
    reporters = [AuditReporter(run_dir), *([] if is_live else [SummaryReporter(run_dir)])]
    began = datetime.now(UTC) - timedelta(seconds=len(events))
    for place, event in enumerate(events, 1):
        at = stamp(began + timedelta(seconds=place), "milliseconds")
        for reporter in reporters:
            reporter.handle(Stamped(place, at, run_id, event))
    for reporter in reporters:
        reporter.close()
    yield run_id
    if lock is not None:
        os.close(lock)
