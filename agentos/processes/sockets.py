"""Which process is at the other end of a connection on this machine, as /proc tells."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agentos.processes import host


def process_behind(its_port: int, our_port: int, roots: Collection[int]) -> int | None:
    """Which of the `roots`, or which root's descendant, has a loopback connection from its port to ours: the root.

    None where nobody has, or where there is no /proc.
    """
    inode = _inode(its_port, our_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    # Most often it is the process itself: looking there first spares a walk through its children.
    own = next((root for root in roots if _holds(root, wanted)), None)
    if own is not None:
        return own
    return next((root for root in roots if any(_holds(pid, wanted) for pid in _descendants(root))), None)


def _inode(its_port: int, our_port: int) -> str | None:
    ends = (f":{its_port:04X}", f":{our_port:04X}")
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                    return fields[9]
    return None


def _holds(pid: int, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208  Hot path.
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == wanted:  # noqa: PTH115  Hot path.
                    return True
    return False


def _descendants(root: int) -> Iterator[int]:
    waiting = host.children_of(root)
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += host.children_of(pid)
