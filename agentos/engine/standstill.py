"""When all workers stand still, and their time with them: the run is suspended, or nobody reads its output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from agentos.engine.backends.protocol import Backend
from agentos.engine.loop import Loop


class Display(Protocol):
    """What is drawn on a terminal that others may write to while we are suspended."""

    def put_aside(self) -> AbstractContextManager[None]:
        """Around a suspension that we know of."""
        ...

    def come_back(self) -> None:
        """After one that came without a word."""
        ...


class _NoDisplay:
    def put_aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def come_back(self) -> None:
        """There is nothing to draw."""


class Standstill:
    """`stood_still(since)` is told afterwards, once for each time: no worker could work since then."""

    def __init__(self, loop: Loop, backend: Backend, stood_still: Callable[[float], None]) -> None:
        self._loop = loop
        self._backend = backend
        self._stood_still = stood_still
        self._unread_since: float | None = None
        self._is_suspended = False
        self.display: Display = _NoDisplay()

    @property
    def is_unread(self) -> bool:
        return self._unread_since is not None

    def pause_output(self) -> None:
        """Whoever reads the output does not keep up: workers wait, and their time stands still."""
        if self._unread_since is None:
            self._unread_since = self._loop.now()
            self._backend.pause_output()

    def resume_output(self) -> None:
        # Not here and now: the reader's progress may be noticed in the middle of an event.
        self._loop.post(self._read_on)

    def _read_on(self) -> None:
        if self._unread_since is not None:
            since, self._unread_since = self._unread_since, None
            self._stood_still(since)
            self._backend.resume_output()

    def suspend(self) -> None:
        """Ctrl+Z. Safe in a signal handler."""
        self._loop.post(self._suspend)

    def was_continued(self) -> None:
        """Somebody suspended us alone: workers that waited for a word from us were not to blame."""
        since = self._loop.waits_since
        self._loop.post(lambda: self._stood_still(since))
        if not self._is_suspended:
            self._loop.post(lambda: self.display.come_back())

    def _suspend(self) -> None:
        """The workers, which no terminal reaches, are suspended with us."""
        began = self._loop.now()
        self._backend.suspend_all()
        with self.display.put_aside():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            self._is_suspended = True
            try:
                os.kill(os.getpid(), signal.SIGTSTP)  # Returns when we are continued.
            finally:
                self._is_suspended = False
                signal.signal(signal.SIGTSTP, handler)
        self._backend.continue_all()
        self._stood_still(began)
