"""Keys for calls on an event loop: from a broker of this process, or from the coordinator of a run."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from agentos.errors import CallCancelledError
from agentos.gateway.messages import FIRST_TICKET
from agentos.keys.broker import KeyBroker
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
from agentos.providers.evidence import Abandoned, Evidence, Succeeded, Usage


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


class OwnLeases:
    """A broker in this process, which wakes by itself."""

    def __init__(self, broker: KeyBroker) -> None:
        self._broker = broker
        self._sent = SentLeases(self._take)
        self._timer: asyncio.TimerHandle | None = None
        self.used: defaultdict[str, Usage] = defaultdict(lambda: Usage(cost_usd=0.0))
        """By client."""
        descriptor = broker.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._turn)

    async def acquire(self, owner: str, ask: Ask) -> Lease:
        return await self._sent.acquire(owner, ask)

    def release(self, owner: str, lease: Lease, evidence: Evidence) -> None:
        if isinstance(evidence, Succeeded):
            used, more = self.used[owner], evidence.usage
            self.used[owner] = Usage(
                input_tokens=used.input_tokens + more.input_tokens,
                output_tokens=used.output_tokens + more.output_tokens,
                cost_usd=(used.cost_usd or 0.0) + (more.cost_usd or 0.0),
            )
        self._sent.release(owner, lease, evidence)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._sent.end()
        descriptor = self._broker.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        self._broker.close()

    def _take(self, owner: str, request: LeaseRequest) -> None:
        self._broker.take(owner, request)
        self._turn()

    def _turn(self) -> None:
        for owner, answer in self._broker.answers():
            self._sent.deliver(owner, answer)
        self._broker.announce()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seconds = self._broker.seconds_to_wake()
        if seconds is not None:
            # A little late rather than early: early would find the limit still standing, and come again.
            self._timer = asyncio.get_running_loop().call_later(seconds + 0.002, self._turn)
