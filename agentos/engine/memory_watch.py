"""Fewer items at once while the machine's memory is nearly used up. Pure, but for reading how much there is."""

from __future__ import annotations

from pathlib import Path

LOW = 0.08
"""Below this share of free memory fewer items run at once."""
ENOUGH = 0.2
"""Above it one more does."""
WATCH_SECONDS = 2.0
WORKER_MEGABYTES = 80
"""What a worker of a small graph takes, with a little to spare."""


def available_share(meminfo: str) -> float:
    """Of a /proc/meminfo: how much of the memory is to be had. 1 when it does not say."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    try:
        return int(fields["MemAvailable"].split()[0]) / int(fields["MemTotal"].split()[0])
    except (KeyError, ValueError, IndexError, ZeroDivisionError):
        return 1.0


def available_megabytes(meminfo: str) -> float | None:
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) / 1024
    return None


def next_limit(limit: int, wanted: int, share: float) -> int:
    """How many items may run at once from now on."""
    if share < LOW:
        return max(1, limit * 3 // 4)
    return min(wanted, limit + 1) if share > ENOUGH else limit


def read_meminfo() -> str:
    """Empty where there is none."""
    try:
        return Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def machine_carries(meminfo: str, open_files: int) -> int:
    """How many items the machine can run at once: each takes memory, and files in the coordinator."""
    megabytes = available_megabytes(meminfo)
    by_memory = int(megabytes * 0.8 / WORKER_MEGABYTES) if megabytes is not None else 10_000
    return max(1, min(by_memory, (open_files - 64) // 8))
