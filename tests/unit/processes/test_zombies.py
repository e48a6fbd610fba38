"""Orphans that have ended are collected when there are too many; children of one's own never are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from agentos.processes import host
from agentos.processes.zombies import ZombieCollector

ORPHANS = 5
LEAVE_ORPHANS = f"""
import os
for _ in range({ORPHANS}):
    if os.fork() == 0:
        os._exit(0)
os._exit(0)
"""


@pytest.fixture(autouse=True)
def _adopts_orphans() -> Iterator[None]:
    before = host.adopt_orphans()
    yield
    host.adopt_orphans(before)


def ended_children() -> set[int]:
    return {pid for pid in host.children_of(os.getpid()) if host.has_ended(pid)}


def wait_for_ended(count: int) -> set[int]:
    deadline = time.monotonic() + 30
    while len(ended := ended_children()) < count:
        assert time.monotonic() < deadline, ended
        time.sleep(0.01)
    return ended


@pytest.mark.skipif(not host.IS_LINUX, reason="only Linux hands orphans to anybody but init")
def test_orphans_are_collected_when_they_are_too_many_and_ones_own_children_stay() -> None:
    before = ended_children()
    own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    subprocess.run([sys.executable, "-c", LEAVE_ORPHANS], check=True)
    wait_for_ended(len(before) + ORPHANS + 1)
    collector = ZombieCollector()

    assert collector.collect(most=0) == 0  # Seen for the first time: somebody may be about to ask.
    assert collector.collect(most=100) == 0  # Few enough to leave alone.
    assert collector.collect(most=ORPHANS) >= ORPHANS
    assert own.pid in ended_children()
    assert own.wait() == 7
