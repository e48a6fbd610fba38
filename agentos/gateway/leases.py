"""Keys for calls on an event loop, from a broker that is told and that answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Protocol

from agentos.errors import CallCancelledError
from agentos.gateway.messages import FIRST_TICKET
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


class Leases(Protocol):
    async def acquire(self, owner: str, ask: Ask) -> Lease:
        """Wait, in order, for a key. Raises what `LeaseBroker.acquire` does."""
        ...

    def release(self, owner: str, lease: Lease, evidence: Evidence) -> None:
        """Give the key back with what the call showed. Exactly once for each lease."""
        ...


class SentLeases:
    """Leases from a broker that is told and that answers, wherever it is."""

    def __init__(self, tell: Callable[[str, LeaseRequest], None]) -> None:
        self._tell = tell
        self._tickets = itertools.count(FIRST_TICKET)
        self._waiting: dict[int, asyncio.Future[LeaseAnswer]] = {}

    async def acquire(self, owner: str, ask: Ask) -> Lease:
        ticket = next(self._tickets)
        answered: asyncio.Future[LeaseAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = answered
        try:
            self._tell(owner, LeaseAsk(ticket=ticket, ask=ask))
            answer = await answered
        except asyncio.CancelledError:
            self._tell(owner, LeaseCancel(ticket=ticket))
            if answered.done() and not answered.cancelled():
                self._give_back(owner, answered.result())
            raise
        finally:
            self._waiting.pop(ticket, None)
        if isinstance(answer, LeaseRefused):
            raise answer.error()
        return answer.lease

    def release(self, owner: str, lease: Lease, evidence: Evidence) -> None:
        self._tell(owner, LeaseReturn(fence=lease.fence, evidence=evidence))

    def deliver(self, owner: str, answer: LeaseAnswer) -> None:
        waiting = self._waiting.get(answer.ticket)
        if waiting is None or waiting.done():
            self._give_back(owner, answer)
        else:
            waiting.set_result(answer)

    def _give_back(self, owner: str, answer: LeaseAnswer) -> None:
        """It came while nobody wanted it any longer."""
        if isinstance(answer, LeaseGranted):
            self.release(owner, answer.lease, Abandoned())

    def end(self) -> None:
        """Nobody answers any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(CallCancelledError())
