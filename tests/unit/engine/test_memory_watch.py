"""How many items a machine carries, and when it is time for fewer."""

from __future__ import annotations

from agentos.engine.memory_watch import available_share, machine_carries, next_limit

MEMINFO = "MemTotal:       8000000 kB\nMemFree:  10 kB\nMemAvailable:   4000000 kB\n"


def test_memory_and_files_decide_how_many_run_at_once() -> None:
    assert machine_carries(MEMINFO, open_files=100_000) == 39
    assert machine_carries(MEMINFO, open_files=144) == 10
    assert machine_carries("", open_files=20) == 1


def test_fewer_run_while_memory_is_short_and_one_more_when_there_is_enough() -> None:
    assert available_share(MEMINFO) == 0.5
    assert available_share("nonsense") == 1.0
    assert next_limit(40, 40, 0.05) == 30
    assert next_limit(1, 40, 0.01) == 1
    assert next_limit(30, 40, 0.1) == 30
    assert next_limit(30, 40, 0.5) == 31
    assert next_limit(40, 40, 0.5) == 40
