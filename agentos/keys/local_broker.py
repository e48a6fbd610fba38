"""Keys for the threads of one process: waits in order, wakes by itself, tells a listener without a lock held."""

from __future__ import annotations

import itertools
import logging
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from agentos.events import Event, Listener
from agentos.keys.broker import KeyBroker
from agentos.keys.leases import (
    Ask,
    Lease,
    LeaseAnswer,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseReturn,
)
from agentos.keys.pool import LONGEST_SLEEP_SECONDS, KeyView
from agentos.providers.evidence import Abandoned, Evidence

_OWNER = "local"
_log = logging.getLogger(__name__)


class LocalBroker:
    """Leases keys to the threads of this process, in the order they came."""

    def __init__(self, make_broker: Callable[[Listener], KeyBroker], on_event: Listener | None = None) -> None:
        """`make_broker` is told where the broker's events go: from there they reach `on_event`."""
        self._listener = on_event
        self._events: deque[Event] = deque()
        self._telling = threading.RLock()
        self._changed = threading.Condition()
        self._tickets = itertools.count(1)
        self._answers: dict[int, LeaseAnswer] = {}
        self._broker = make_broker(self._events.append)
        descriptor = self._broker.fileno()
        if descriptor is not None:
            threading.Thread(target=self._hear, args=(descriptor,), name="agentos-keys", daemon=True).start()

    def acquire(self, ask: Ask) -> Lease:
        """Wait, in order, for a key. Raises NoUsableKeyError, or QuotaGoneError when patience ends before a limit."""
        lease = self.acquire_within(ask, None)
        assert lease is not None
        return lease

    def acquire_within(self, ask: Ask, seconds: float | None) -> Lease | None:
        """`acquire`, or None when the time has passed; with 0 it does not wait, and nobody hears that it would."""
        deadline = None if seconds is None else time.monotonic() + seconds
        ticket = next(self._tickets)
        try:
            with self._changed:
                self._broker.take(_OWNER, LeaseAsk(ticket=ticket, ask=ask))
                answer = self._next_answer(ticket)
                while answer is None and seconds != 0 and self._sleep(deadline):
                    answer = self._next_answer(ticket)
        finally:
            self._leave(ticket)
        if isinstance(answer, LeaseRefused):
            raise answer.error()
        return None if answer is None else answer.lease

    def release(self, lease: Lease, evidence: Evidence) -> None:
        with self._changed:
            self._broker.take(_OWNER, LeaseReturn(fence=lease.fence, evidence=evidence))
            self._deliver()
            self._changed.notify_all()  # Even with nothing to hand out: the time to wake up at may be new.
        self._tell()

    def wait_until_open(self, provider: str, model: str, seconds: float) -> bool:
        """Wait until a key is available, without taking it. False when the time has passed."""
        deadline = time.monotonic() + seconds
        lane = (provider, model)
        with self._changed, self._broker.watching(lane):
            while not (is_open := self._broker.is_open(lane)) and seconds > 0 and self._sleep(deadline):
                pass
        with self._changed:
            self._broker.announce()
        self._tell()
        return is_open

    def note(self, key_name: str, model: str, evidence: Evidence) -> None:
        """Evidence that came outside a lease."""
        with self._changed:
            self._broker.note(key_name, model, evidence)
            self._changed.notify_all()
        self._tell()

    def snapshot(self) -> list[KeyView]:
        with self._changed:
            return self._broker.snapshot()

    @property
    def waiting_count(self) -> int:
        """How many calls wait for a key."""
        with self._changed:
            return self._broker.waiting_count

    def _hear(self, descriptor: int) -> None:
        """What the home's pool says, at any time."""
        while select.select([descriptor], [], []):
            with self._changed:
                self._deliver()
                self._changed.notify_all()

    def _next_answer(self, ticket: int) -> LeaseAnswer | None:
        self._deliver()
        return self._answers.pop(ticket, None)

    def _deliver(self) -> None:
        """Hand out what there is and wake those who wait for it."""
        answers = self._broker.answers()
        for _, answer in answers:
            self._answers[answer.ticket] = answer
        if answers:
            self._changed.notify_all()

    def _sleep(self, deadline: float | None) -> bool:
        """Wait for something to change; the lock is held before and after. False when there is no time left."""
        # First: that somebody waits is told however short the time is.
        self._broker.announce()
        if self._events:
            self._changed.release()
            try:
                self._tell()
            finally:
                self._changed.acquire()
            return True  # Much may have changed meanwhile.
        left = LONGEST_SLEEP_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return False
        wake = self._broker.seconds_to_wake()
        self._changed.wait(min(left, LONGEST_SLEEP_SECONDS if wake is None else wake))
        return True

    def _leave(self, ticket: int) -> None:
        """Stop waiting, whether served, out of time or interrupted: a key that came too late goes to the next."""
        with self._changed:
            self._broker.take(_OWNER, LeaseCancel(ticket=ticket))
            late = self._answers.pop(ticket, None)
            if isinstance(late, LeaseGranted):
                self._broker.take(_OWNER, LeaseReturn(fence=late.lease.fence, evidence=Abandoned()))
                self._deliver()
            self._broker.announce()
            self._changed.notify_all()
        self._tell()

    def _tell(self) -> None:
        """Give the listener its events, in order and without the broker's lock. One that fails is heard no more."""
        with self._telling:
            while self._events:
                event = self._events.popleft()
                if self._listener is not None:
                    try:
                        self._listener(event)
                    except Exception:
                        _log.warning("the listener of the key pool failed and is dropped", exc_info=True)
                        self._listener = None
