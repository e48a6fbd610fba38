"""Six LLDs with a model that takes a second: one by one, two and three at a time. The same calls, N/P of the time."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.harness import last_records, scratch, timed, verdict

ITEMS = 6
TOLERANCE = 1.10
"""The promise: within 10 % of N/P."""
_LLD_WORKFLOW = str(Path(sys.executable).with_name("lld-workflow"))
_ISSUE = """# Add feature number {number}

## Requirements

1. `feature_{number}(value)` returns the value plus {number}.
2. A value that is not a number is refused with a message that names it.
"""


@dataclass(frozen=True)
class Measured:
    seconds: float
    """From the first item's start to the last one's end: loading LangGraph is the same for all."""
    calls: int


def main() -> None:
    sequential = _measure(1)
    print(f"   1 at a time: {sequential.seconds:.2f} s, {sequential.calls} model calls", flush=True)
    for parallel in (2, 3):
        measured = _measure(parallel)
        speed_up = sequential.seconds / measured.seconds
        print(f"   {parallel} at a time: {measured.seconds:.2f} s, {speed_up:.2f} times as fast", flush=True)
        ideal = sequential.seconds / parallel
        verdict(f"time at {parallel} against N/P", measured.seconds / ideal, TOLERANCE)
        verdict(f"model calls at {parallel} against one by one", measured.calls / sequential.calls, 1.0)


def _measure(parallel: int) -> Measured:
    with scratch() as directory:
        project = directory / "project"
        issues = project / "docs/issues"
        issues.mkdir(parents=True)
        for number in range(1, ITEMS + 1):
            (issues / f"{number}-feature.md").write_text(_ISSUE.format(number=number))
        os.environ["AGENTOS_OFFLINE_LATENCY_SECONDS"] = "1"
        try:
            command = [_LLD_WORKFLOW, "--all", "--parallel", str(parallel), "--drafter", "offline"]
            timed(
                [*command, "--reviewer", "offline", "--record", str(directory / "calls"), "--project", "."], project
            )
        finally:
            del os.environ["AGENTOS_OFFLINE_LATENCY_SECONDS"]
        stamps = {
            record["type"]: datetime.fromisoformat(record["time"]) for record in last_records(directory / "home")
        }
        calls = len(list((directory / "calls").rglob("*.json")))
        return Measured((stamps["run_ended"] - stamps["run_started"]).total_seconds(), calls)


if __name__ == "__main__":
    main()
