"""Giving up model calls in flight: from another thread, when a worker is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentos.errors import CallCancelledError

_active: set[Cancellation] = set()
_active_lock = threading.Lock()


class Cancellation:
    """Whether one call is to be given up, and what to do the moment it is."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callback: Callable[[], object] | None = None

    @property
    def is_requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        """Give the call up: whatever it waits for ends now, and it raises CallCancelledError."""
        with self._lock:
            self._event.set()
            callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def check(self) -> None:
        if self.is_requested:
            raise CallCancelledError

    def wait(self, seconds: float) -> None:
        """Sleep, unless cancelled before or meanwhile."""
        if seconds > 0:
            self._event.wait(seconds)
        self.check()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Run `callback` once (from any thread) if cancellation is requested inside the block or was before it."""
        with self._lock:
            is_late = self._event.is_set()
            self._callback = None if is_late else callback
        if is_late:
            callback()
        try:
            yield
        finally:
            with self._lock:
                self._callback = None


@contextmanager
def tracked(cancellation: Cancellation) -> Iterator[Cancellation]:
    """Make a call reachable for `cancel_calls` while it lasts."""
    with _active_lock:
        _active.add(cancellation)
    try:
        yield cancellation
    finally:
        with _active_lock:
            _active.discard(cancellation)


def cancel_calls() -> int:
    """Give up every model call of this process that is in flight; says how many there were."""
    with _active_lock:
        calls = list(_active)
    for call in calls:
        call.request()
    return len(calls)
