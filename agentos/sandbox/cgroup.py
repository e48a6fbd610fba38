"""A control group for one command, where the machine lets its user make one: limits that no process outruns.

Only version 2, and only below a group that was handed over with memory and processes counted in it: what a user's
systemd does for services and desktop programs. Elsewhere there is none, and the supervisor counts by itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentos.sandbox.limits import EndedBy, Limits

_PREFIX: Final = "agentos-"
_NEEDED: Final = frozenset({"memory", "pids"})
_LEFT_SECONDS: Final = 60.0
"""An empty group of this age belongs to nobody any more."""
_REMOVE_SECONDS: Final = 5.0
_MB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cgroup:
    path: Path

    def enter(self) -> None:
        """Put this process, and all that it will start, into the group."""
        (self.path / "cgroup.procs").write_text("0")

    def ended_by(self) -> EndedBy | None:
        """The limit that the kernel ended a process for."""
        return EndedBy.MEMORY if _count(self.path / "memory.events", "oom_kill") else None

    def remove(self) -> None:
        """End whoever is left in it, and remove it."""
        with contextlib.suppress(OSError), (self.path / "cgroup.kill").open("r+") as file:
            file.write("1")
        deadline = time.monotonic() + _REMOVE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.005)


def make(limits: Limits, groups: Iterable[Path] | None = None) -> Cgroup | None:
    """A new group with these limits below the first of `groups` that can have one; None where there is none.

    Without `groups`, below the one that this process is in, or one above it.
    """
    for parent in _groups_of_this_process() if groups is None else groups:
        with contextlib.suppress(OSError):
            if set((parent / "cgroup.subtree_control").read_text().split()) >= _NEEDED:
                _remove_left(parent)
                return _limited(parent / f"{_PREFIX}{os.getpid()}-{time.time_ns()}", limits)
    return None


def _limited(path: Path, limits: Limits) -> Cgroup:
    path.mkdir()
    try:
        # Moving a process here takes the right to take it out of where it is, too.
        if not os.access(path.parent / "cgroup.procs", os.W_OK):
            raise PermissionError(f"{path.parent} was not handed over")
        (path / "memory.max").write_text(str(limits.memory_mb * _MB))
        # Twice of what is allowed: the supervisor sees it before and says why it ends them.
        (path / "pids.max").write_text(str(2 * limits.processes))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with contextlib.suppress(OSError):
                (path / name).write_text(value)
    except OSError:
        path.rmdir()
        raise
    return Cgroup(path)


def _remove_left(parent: Path) -> None:
    """Groups of supervisors that were killed. One with processes in it cannot be removed."""
    for path in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                path.rmdir()


def _groups_of_this_process() -> Iterator[Path]:
    """The group that this process is in, and those above it."""
    with contextlib.suppress(OSError):
        own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        tops = [Path(words[4]) for words in mounts if words[words.index("-") + 1] == "cgroup2"]
        if own and tops:
            group = tops[0] / own[0].lstrip("/")
            yield group
            yield from (above for above in group.parents if above.is_relative_to(tops[0]))


def _count(path: Path, name: str) -> int:
    try:
        fields = dict(line.split() for line in path.read_text().splitlines())
        return int(fields.get(name, "0"))
    except (OSError, ValueError):
        return 0
