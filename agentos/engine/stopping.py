"""How a run stops, and how long each step of it may take: every grace time of the engine is in this file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

from agentos.engine.loop import Loop
from agentos.errors import ExitCode

PROMISED_SECONDS = 5.0
"""After the first Ctrl+C everything is down within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceTimes:
    """The steps of a stop, in order, in seconds. Each is for those that the step before has not ended."""

    worker: float = 2.0
    """A worker that was told to stop, or that has nothing left to do, cleans up and exits; then it ends itself."""
    ends_itself: float = 1.0
    """Its own end has taken effect; then the backend kills it."""
    kill: float = 1.0
    """The kernel ends killed processes, and those they leave behind; then nobody waits for them any longer."""
    close: float = 0.3
    """What the backend keeps to make workers leaves by itself; then it is killed."""
    sweep: float = 0.2
    """Whatever still carries the run's id is found and killed."""
    flush: float = 0.4
    """A slow reader takes what has been said."""

    @property
    def kill_after(self) -> float:
        return self.worker + self.ends_itself

    @property
    def give_up_after(self) -> float:
        return self.kill_after + self.kill

    @property
    def total(self) -> float:
        return float(sum(astuple(self)))


GRACE = GraceTimes()

EXITING_SECONDS = 0.2
"""Part of the kill: a process that is on its way out is not yet killed, nor reported as left behind."""


class Stopping:
    """The stop of one run: whether it is under way, what it makes of the exit code, how much time is left."""

    def __init__(self, loop: Loop, *, kill_all: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._loop = loop
        self._kill_all = kill_all
        self._give_up = give_up
        self._began: float | None = None
        self.exit_code: ExitCode | None = None
        """Why the run stops; None when nothing stops it."""

    @property
    def is_under_way(self) -> bool:
        return self._began is not None

    def request(self, exit_code: ExitCode, *, at_once: bool) -> bool:
        """Whether this asks for anything new. From the first request on the clock runs."""
        if self.is_under_way and not at_once:
            return False
        self.exit_code = self.exit_code or exit_code
        if self._began is None:
            self._began = self._loop.now()
            self._loop.after(GRACE.kill_after, self._kill_all)
            self._loop.after(GRACE.give_up_after, self._give_up)
        return True

    def blame_the_run(self) -> None:
        """The run itself is at fault: that counts for more than being interrupted."""
        if self.exit_code in (None, ExitCode.INTERRUPTED):
            self.exit_code = ExitCode.ITEM_FAILED

    def seconds_to_close(self) -> float:
        """How long closing the backend may take: the promise less what is over and what is still to come."""
        if self._began is None:
            return PROMISED_SECONDS
        left = self._began + PROMISED_SECONDS - GRACE.flush - self._loop.now()
        return max(GRACE.close + GRACE.sweep, left)
