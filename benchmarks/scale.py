"""Decisions from 1,000 to 100,000 items on 500 nodes with 1,000 keys: the real schedule and pool, virtual time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.harness import verdict

SIZES = (1_000, 10_000, 100_000)
BYTES_IN_A_KILOBYTE = 1024
MEGA = 1_000_000


@dataclass(frozen=True)
class Row:
    items: int
    done: int
    makespan_seconds: float
    over_bound: float
    refused_share: float
    repeated: int
    deaths: int
    schedule_microseconds: float
    pool_microseconds: float
    longest_milliseconds: float
    cpu_seconds: float
    megabytes: float


def main() -> None:
    rows = [_measured(size) for size in SIZES]
    print("     items  makespan  over bound  refused  again  nodes lost  schedule   pool  longest     CPU   memory")
    for row in rows:
        print(
            f"   {row.items:7,} {row.makespan_seconds:7.0f} s {row.over_bound:11.3f} {row.refused_share:8.1%}"
            f" {row.repeated:6} {row.deaths:11} {row.schedule_microseconds:6.1f} µs {row.pool_microseconds:3.0f} µs"
            f" {row.longest_milliseconds:5.0f} ms {row.cpu_seconds:5.1f} s {row.megabytes:5.0f} MB",
            flush=True,
        )
    small, large = rows[0], rows[-1]
    verdict("items that were not done", sum(row.items - row.done for row in rows), 0)
    verdict("makespan of 100,000 items over the bound", large.over_bound, 1.1)
    verdict("refused calls", max(row.refused_share for row in rows), 0.05)
    decision = (large.schedule_microseconds + large.pool_microseconds) / (
        small.schedule_microseconds + small.pool_microseconds
    )
    verdict("a decision among 100,000 items over one among 1,000", decision, 4)
    verdict("memory per further item", (large.megabytes - small.megabytes) * MEGA / large.items / 1000, 3, " kB")


def _measured(items: int) -> Row:
    """In a process of its own, whose memory is that of this simulation."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", str(items)], capture_output=True, text=True, check=True
    )
    return Row(**json.loads(done.stdout))


def _simulate(items: int) -> Row:
    from fakes.cluster import ClusterRun, World

    began = time.process_time()
    outcome = ClusterRun(World(items=items)).run()
    return Row(
        items=items,
        done=len(outcome.done),
        makespan_seconds=outcome.makespan_seconds,
        over_bound=outcome.over_bound,
        refused_share=outcome.refused_share,
        repeated=outcome.repeated,
        deaths=outcome.deaths,
        schedule_microseconds=outcome.schedule.mean_microseconds,
        pool_microseconds=outcome.pool.mean_microseconds,
        longest_milliseconds=1e3 * max(outcome.schedule.longest_seconds, outcome.pool.longest_seconds),
        cpu_seconds=time.process_time() - began,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_IN_A_KILOBYTE / MEGA,
    )


if __name__ == "__main__":
    print(json.dumps(vars(_simulate(int(sys.argv[1])))))
