"""A worker's way to a key: asks the broker in the coordinator's process, and gets a token for one call."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable

from agentos.errors import CallCancelledError
from agentos.keys.leases import (
    Ask,
    Lease,
    LeaseAnswer,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseRequest,
    LeaseReturn,
)
from agentos.providers.evidence import Abandoned, Evidence


class LeaseClient:
    """Safe from any thread of the worker. Knows no pool and no key: only what stands for one during a call."""

    def __init__(self, send: Callable[[LeaseRequest], None]) -> None:
        self._send = send
        self._tickets = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[LeaseAnswer | None]] = {}
        self._is_stopped = False

    def acquire(self, ask: Ask) -> Lease:
        """Wait, however long, for a key. Interrupted, it leaves the queue and gives back what comes too late."""
        ticket = next(self._tickets)
        answer: queue.SimpleQueue[LeaseAnswer | None] = queue.SimpleQueue()
        with self._lock:
            if self._is_stopped:
                raise CallCancelledError
            self._waiting[ticket] = answer
        try:
            self._send(LeaseAsk(ticket=ticket, ask=ask))
            received = answer.get()
        except BaseException:
            with self._lock:
                self._waiting.pop(ticket, None)
            self._send(LeaseCancel(ticket=ticket))
            raise
        if received is None:
            self._send(LeaseCancel(ticket=ticket))
            raise CallCancelledError
        if isinstance(received, LeaseRefused):
            raise received.error()
        return received.lease

    def release(self, lease: Lease, evidence: Evidence) -> None:
        self._send(LeaseReturn(fence=lease.fence, evidence=evidence))

    def stop(self) -> None:
        """Nobody waits for a key any longer, in whatever thread: the item is to end."""
        with self._lock:
            self._is_stopped = True
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.put(None)

    def deliver(self, message: LeaseAnswer) -> None:
        """From the thread that listens to the coordinator."""
        with self._lock:
            answer = self._waiting.pop(message.ticket, None)
        if answer is not None:
            answer.put(message)
        elif isinstance(message, LeaseGranted):
            # Granted while it was being cancelled: nobody will use it.
            self.release(message.lease, Abandoned())
