"""One item's time: its limit, its signs of life, and all the waiting that does not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentos.engine.item_clock import ItemClock
from agentos.engine.loop import Loop, Timer

START_SECONDS = 120.0
"""How long a worker may take to load and open its item; a loaded machine is slow, a hanging import never ends."""
_GRAIN_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    timeout_seconds: float
    stall_seconds: float
    heartbeat_seconds: float


class WatchEvents(Protocol):
    """What the run hears of an item's time."""

    def is_unread(self) -> bool:
        """Whether workers stand still because nobody reads the output."""
        ...

    def suspended(self, item_id: str) -> None: ...
    def timed_out(self, item_id: str) -> None: ...
    def stalled(self, item_id: str, silent_seconds: float) -> None: ...


class ItemWatch:
    """Made when the item's worker is asked for; `begin` when the item itself starts."""

    def __init__(
        self, item_id: str, loop: Loop, limits: TimeLimits, events: WatchEvents, is_suspended: Callable[[], bool]
    ) -> None:
        self._item_id = item_id
        self._loop = loop
        self._limits = limits
        self._events = events
        self._is_suspended = is_suspended
        self._clock = ItemClock(loop.now())
        self._heard = loop.now()
        self._waits_for: set[str] = set()
        """What it is not to blame for: a key, a person."""
        self._was_suspended = False
        self._is_closed = False
        self._time_timer: Timer | None = None
        self._stall_timer: Timer | None = None
        self._allowed_silence = max(limits.stall_seconds, START_SECONDS)
        self._plan_stall_check()

    @property
    def seconds(self) -> float:
        """Since the item started, whatever it did."""
        return self._loop.now() - self._clock.started

    @property
    def working_seconds(self) -> float:
        """Without waiting for keys and being suspended."""
        return self._clock.worked_seconds(self._loop.now())

    def begin(self) -> None:
        """The item's own time starts: making its process does not count."""
        self._clock = ItemClock(self._loop.now())
        self._allowed_silence = self._limits.stall_seconds
        self._plan_time_check()
        self._plan_stall_check()

    def hear(self) -> None:
        """A sign of life."""
        self._heard = self._loop.now()
        if self._clock.is_paused and not self._waits_for:
            self._clock.go_on(self._heard)
            self._plan_time_check()

    def wait_for_key(self, is_waiting: bool) -> None:
        """Time spent waiting for a key does not count."""
        self._wait("key", is_waiting)

    def wait_for_person(self, is_waiting: bool) -> None:
        """Nor does the time of a run that somebody paused."""
        self._wait("person", is_waiting)

    def _wait(self, what: str, is_waiting: bool) -> None:
        if is_waiting:
            if not self._waits_for:
                self._clock.pause(self._loop.now())
            self._waits_for.add(what)
        elif what in self._waits_for:
            self._waits_for.remove(what)
            if not self._waits_for:
                self._clock.go_on(self._loop.now())
                self._plan_time_check()

    def stood_still(self, since: float) -> None:
        """It could not work since then, through no fault of its own."""
        self._heard = self._loop.now()
        self._plan_stall_check()
        if not self._waits_for:
            self._clock.pause(since)
            self._clock.go_on(self._heard)
            self._plan_time_check()

    def close(self) -> None:
        self._is_closed = True
        for timer in (self._time_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()

    def _plan_time_check(self) -> None:
        if self._time_timer is not None:
            self._time_timer.cancel()
        if not self._is_closed:
            left = self._limits.timeout_seconds - self._clock.worked_seconds(self._loop.now())
            self._time_timer = self._loop.after(max(0.0, left), self._check_time)

    def _check_time(self) -> None:
        if self._waits_for or self._is_resting():
            return
        if self._clock.worked_seconds(self._loop.now()) + _GRAIN_SECONDS < self._limits.timeout_seconds:
            self._plan_time_check()
            return
        self._events.timed_out(self._item_id)

    def _plan_stall_check(self) -> None:
        """One heartbeat from now at the latest: a suspension is noticed while it lasts, or is too short to matter."""
        left = self._heard + self._allowed_silence - self._loop.now()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if not self._is_closed:
            wait = min(max(0.0, left), self._limits.heartbeat_seconds)
            self._stall_timer = self._loop.after(wait, self._check_stall)

    def _check_stall(self) -> None:
        was_suspended = self._was_suspended
        if self._is_resting() or was_suspended:
            # Silence counts from when it could last have spoken.
            self._heard = self._loop.now()
        silent = self._loop.now() - self._heard
        if silent + _GRAIN_SECONDS >= self._allowed_silence:
            self._events.stalled(self._item_id, silent)
        else:
            self._plan_stall_check()

    def _is_resting(self) -> bool:
        """Suspended by somebody, or unread: its time stands still until it is heard again."""
        if self._events.is_unread():
            return True
        was_suspended, self._was_suspended = self._was_suspended, self._is_suspended()
        if not self._was_suspended:
            return False
        self._clock.pause(self._heard)
        if not was_suspended:
            self._events.suspended(self._item_id)
        return True
