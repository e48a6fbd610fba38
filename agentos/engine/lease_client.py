"""A worker's way to a key: asks the coordinator over the worker's socket and holds the key for one call."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable

from agentos.engine.messages import (
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseReturn,
    UpMessage,
)
from agentos.errors import AgentosError, BudgetReachedError, ExitCode, NoUsableKeyError, QuotaGoneError
from agentos.keys.leases import Lease
from agentos.keys.redaction import Redactor
from agentos.keys.wire import evidence_to_data
from agentos.llm.cancellation import cancelled_error
from agentos.providers.evidence import Abandoned, Evidence

_UNUSED = evidence_to_data(Abandoned())
_ERRORS: dict[int, type[AgentosError]] = {
    ExitCode.NO_USABLE_KEY: NoUsableKeyError,
    ExitCode.BUDGET_REACHED: BudgetReachedError,
    ExitCode.QUOTA_GONE: QuotaGoneError,
}


class SocketBroker:
    """Safe from any thread of the worker. Knows no pool: only the keys it holds, while it holds them."""

    def __init__(self, send: Callable[[UpMessage], None]) -> None:
        self._send = send
        self._tickets = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[LeaseGranted | LeaseRefused | None]] = {}
        self._is_stopped = False
        self.redactor = Redactor()
        """Masks every key this worker has held, in whatever it keeps."""

    def acquire(
        self, *, provider: str, model: str, estimated_tokens: int = 0, estimated_cost_usd: float | None = None
    ) -> Lease:
        """Wait, however long, for a key. Interrupted, it leaves the queue and gives back what comes too late."""
        ticket = next(self._tickets)
        answer: queue.SimpleQueue[LeaseGranted | LeaseRefused | None] = queue.SimpleQueue()
        with self._lock:
            if self._is_stopped:
                raise cancelled_error()
            self._waiting[ticket] = answer
        try:
            self._send(
                LeaseAsk(
                    ticket=ticket,
                    provider=provider,
                    model=model,
                    estimated_tokens=estimated_tokens,
                    estimated_cost_usd=estimated_cost_usd,
                )
            )
            received = answer.get()
        except BaseException:
            with self._lock:
                self._waiting.pop(ticket, None)
            self._send(LeaseCancel(ticket=ticket))
            raise
        if received is None:
            self._send(LeaseCancel(ticket=ticket))
            raise cancelled_error()
        if isinstance(received, LeaseRefused):
            raise _ERRORS.get(received.exit_code, AgentosError)(received.message)
        return Lease(
            key_name=received.key_name,
            fence=received.fence,
            provider=received.provider,
            model=received.model,
            secret=received.secret,
        )

    def release(self, lease: Lease, evidence: Evidence) -> None:
        self._send(LeaseReturn(key_name=lease.key_name, fence=lease.fence, evidence=evidence_to_data(evidence)))

    def stop(self) -> None:
        """Nobody waits for a key any longer, in whatever thread: the item is to end."""
        with self._lock:
            self._is_stopped = True
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.put(None)

    def deliver(self, message: LeaseGranted | LeaseRefused) -> None:
        """From the thread that listens to the coordinator."""
        if isinstance(message, LeaseGranted):
            self.redactor.add([message.secret])
        with self._lock:
            answer = self._waiting.pop(message.ticket, None)
        if answer is not None:
            answer.put(message)
        elif isinstance(message, LeaseGranted):
            # Granted while it was being cancelled: nobody will use it.
            self._send(LeaseReturn(key_name=message.key_name, fence=message.fence, evidence=_UNUSED))
