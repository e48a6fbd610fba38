"""Keys for calls on an event loop, from a broker of this process. Apart: a run's gateway needs no broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from agentos.gateway.leases import SentLeases
from agentos.keys.broker import KeyBroker
from agentos.keys.leases import Ask, Lease, LeaseRequest
from agentos.providers.evidence import Evidence, Succeeded, Usage


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
