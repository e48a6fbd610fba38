"""Ended processes that nobody asks about: a subreaper's adopted orphans. Too many of them use up process numbers."""

from __future__ import annotations

import gc
import os
import subprocess
from contextlib import suppress
from multiprocessing.process import BaseProcess

from agentos.processes import host

MOST = 100
"""So many may wait. Below that nothing is touched: a program may ask for its own children whenever it likes."""


class ZombieCollector:
    """Collects orphans that have ended, in a process that also has children of its own."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def collect(self, most: int = MOST) -> int:
        """Call it now and then. Collects what had ended by the call before, if it is too much, and says how many."""
        ended = {pid for pid in host.children_of(os.getpid()) if host.has_ended(pid)}
        waiting, self._seen = ended & self._seen, ended
        if len(waiting) <= most:
            return 0
        orphans = waiting - _own_children()
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return len(orphans)


def _own_children() -> set[int]:
    """Those that this program may still ask about."""
    own: set[int] = set()
    # By their type alone: what an object says of its class may be a user's code.
    for each in gc.get_objects():
        if issubclass(type(each), subprocess.Popen | BaseProcess):
            with suppress(Exception):  # One that was closed has no number.
                own.add(each.pid)
    return own
