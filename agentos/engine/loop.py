"""The one loop that owns a run: waits on descriptors and timers, never polls."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
_FEW_TIMERS = 100


@dataclass(order=True, slots=True)
class Timer:
    when: float
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Single-threaded. `post` alone may be called from other threads and from signal handlers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock
        # poll, not epoll: it takes regular files too, and a run has few descriptors.
        self._selector = (
            selectors.PollSelector() if hasattr(selectors, "PollSelector") else selectors.DefaultSelector()
        )
        self._timers: list[Timer] = []
        self._sweep_at = _FEW_TIMERS
        self._numbers = itertools.count()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, READ, self._drain_wake)
        self._is_running = False
        self.waits_since = self.now()
        """When it last began to wait for something to happen."""
        # Guards the wake-up pipe alone. Reentrant: a signal handler may interrupt a post of its own thread.
        self._wake_lock = threading.RLock()
        self._is_closed = False

    def post(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the loop, soon. After `close` nobody is left to hear it."""
        self._posted.append(callback)
        with self._wake_lock:
            # Once closed, the descriptor's number may be anybody's file.
            if not self._is_closed:
                with suppress(BlockingIOError):  # The pipe is full of wake-ups already.
                    os.write(self._wake_write, b"\0")

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now() + seconds, next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        if len(self._timers) >= self._sweep_at:
            self._sweep()
        return timer

    def _sweep(self) -> None:
        """Forget cancelled timers: most are an item's time limit, and would be kept until that is over."""
        self._timers = [timer for timer in self._timers if timer.callback is not None]
        heapq.heapify(self._timers)
        self._sweep_at = max(_FEW_TIMERS, 2 * len(self._timers))

    def watch(self, descriptor: int, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback(events)` whenever the descriptor is ready. Replaces an earlier watch."""
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events, callback)
        else:
            self._selector.register(descriptor, events, callback)

    def unwatch(self, descriptor: int) -> None:
        """Also one that nobody watches, or that is closed and known as -1."""
        if descriptor >= 0 and descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def run(self) -> None:
        """Until `stop`."""
        self._is_running = True
        while self._is_running:
            self.waits_since = self.now()
            for key, events in self._selector.select(self._seconds_to_next()):
                callback: Any = key.data
                # An earlier callback of this round may have closed this one, and its number may be taken again.
                current = self._selector.get_map().get(key.fd)
                if current is not None and current.data == callback:
                    callback(events)
            self._run_posted()
            self.run_due_timers()

    def stop(self) -> None:
        self._is_running = False

    def close(self) -> None:
        self._selector.close()
        with self._wake_lock:
            self._is_closed = True
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _seconds_to_next(self) -> float | None:
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        if self._posted:
            return 0
        return max(0.0, self._timers[0].when - self.now()) if self._timers else None

    def _drain_wake(self, _events: int) -> None:
        while True:
            try:
                if len(os.read(self._wake_read, 4096)) < 4096:
                    return
            except BlockingIOError:
                return

    def _run_posted(self) -> None:
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def run_due_timers(self) -> None:
        now = self.now()
        while self._timers and self._timers[0].when <= now:
            callback = heapq.heappop(self._timers).callback
            if callback is not None:
                callback()
