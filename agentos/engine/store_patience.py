"""Waits for a store that may be away, in a thread: the run's loop goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from agentos.engine.loop import Loop

Work = Callable[[], None]


class Probe(Protocol):
    """Finds out whether what checkpoints are kept in answers."""

    def wait(self) -> Exception | None:
        """Until it answers; else why it was waited for in vain. In a thread of its own."""

    def give_up(self, why: Exception) -> None:
        """Who asks the store next is told so at once, and does not wait again. In the loop."""


class StorePatience:
    """What asks the store is done when that answers, in the order in which it came. All calls come from the loop."""

    def __init__(self, loop: Loop, probe: Probe | None) -> None:
        """Without a probe the store is always there, and everything is done at once."""
        self._loop = loop
        self._probe = probe
        self._waiting: list[Work] = []
        self._is_asking = False

    def when_it_answers(self, work: Work) -> None:
        """Also when it was waited for in vain: then `work` meets the error itself."""
        if self._probe is None:
            work()
            return
        self._waiting.append(work)
        if not self._is_asking:
            self._is_asking = True
            threading.Thread(target=self._ask, args=[self._probe], name="agentos-store", daemon=True).start()

    def end(self) -> None:
        """Nobody waits any longer, now or later."""
        self._probe = None
        self._do_what_waits()

    def _ask(self, probe: Probe) -> None:
        why = probe.wait()
        self._loop.post(partial(self._heard, probe, why))

    def _heard(self, probe: Probe, why: Exception | None) -> None:
        self._is_asking = False
        if why is not None:
            probe.give_up(why)
        self._do_what_waits()

    def _do_what_waits(self) -> None:
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()
