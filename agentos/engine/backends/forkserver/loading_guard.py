"""A small process beside the fork server while that loads the graph, and cannot look after what the graph starts.

An import may hang in code that lets nothing else run, so the kernel kills the server when the coordinator dies. The
guard then ends what the graph's module has started, perhaps in sessions of their own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from agentos.processes import host
from agentos.processes.children import kill_with_variable

MARK_VARIABLE = "AGENTOS_FORK_SERVER"
"""In the environment of all that one backend's fork servers start, with a word of its own: a run may have several
on a machine, one for each node of a cluster."""
_DYING_SECONDS = 2.0


class LoadingGuard:
    """Made before the graph is loaded, by a process that has no threads yet."""

    def __init__(self, mark: str, control: socket.socket) -> None:
        """The guard must not keep `control` open: the coordinator waits for its end."""
        coordinator = os.getppid()
        born = host.start_time(coordinator)
        watched, self._held = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._held)
            control.close()
            _watch(watched, lambda: host.start_time(coordinator) != born or host.has_ended(coordinator), mark)
        os.close(watched)

    def stand_down(self) -> None:
        """The graph is loaded. Fine when the guard is gone already."""
        with suppress(OSError):
            os.write(self._held, b"\0")
        os.close(self._held)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _watch(watched: int, is_coordinator_gone: Callable[[], bool], mark: str) -> None:
    """Ends the process that calls it. As long as the coordinator lives, such things are its own business."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        if os.read(watched, 1):
            return
        # The pipe ends with the server, which dies with the coordinator: that may be an instant behind.
        deadline = time.monotonic() + _DYING_SECONDS
        while not is_coordinator_gone():
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        kill_with_variable(MARK_VARIABLE, mark)
    finally:
        os._exit(0)
