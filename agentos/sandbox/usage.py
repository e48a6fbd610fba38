"""What a command uses while it runs: its processes, their memory, the files it wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_LEAST_FILE_BYTES: Final = 4096
"""An empty file takes room too."""
_MOST_OF_A_PATH: Final = 4095


class TooDeep(Exception):
    """Folders in folders, further than a path can name."""


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`; one that is just starting may be missing."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def task_count(pids: Iterable[int]) -> int:
    """Processes and threads."""
    return sum(int(_status(pid).get("Threads", "0")) for pid in pids)


def memory_bytes(pids: Iterable[int], *, enough: int) -> int:
    """Memory that is theirs alone; pages that a parent shares with its children are counted once.

    Counting exactly takes long, so it is done only when the rough sum is more than `enough`.
    """
    known = list(pids)
    rough = sum(map(_own_memory, known))
    return rough if rough <= enough else sum(map(_proportional_memory, known))


def _own_memory(pid: int) -> int:
    status = _status(pid)
    return sum(_kilobytes(status.get(name, "")) for name in ("RssAnon", "RssShmem"))


def _proportional_memory(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
        fields = dict(line.split(":", 1) for line in file if ":" in line)
        return sum(_kilobytes(fields.get(name, "")) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))
    return _own_memory(pid)


def _kilobytes(field: str) -> int:
    words = field.split()
    return int(words[0]) * 1024 if words else 0


def _status(pid: int) -> dict[str, str]:
    with suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return dict(line.rstrip().split(":", 1) for line in file if ":" in line)
    return {}


def nameless_bytes(pids: Iterable[int]) -> tuple[int, int]:
    """What open files take up that have no name: in memory, and on a disk. Nobody finds them in a folder."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names
                with suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116 - a text all the way
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    # Files of memory are on no device: those have a major number.
    in_memory = sum(size for (device, _), size in sizes.items() if not os.major(device))
    return in_memory, sum(sizes.values()) - in_memory


def bytes_written(folders: Iterable[str], since: float, *, enough: int) -> int:
    """What files take up that were changed since then; counting stops at `enough`.

    Raises TooDeep where no path leads: nobody could count what is there.
    """
    total = 0
    waiting = list(folders)
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if len(os.fsencode(entry.path)) > _MOST_OF_A_PATH:
                    raise TooDeep
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if found.st_ctime >= since:
                        total += max(found.st_blocks * 512, _LEAST_FILE_BYTES)
        if total > enough:
            return total
    return total
