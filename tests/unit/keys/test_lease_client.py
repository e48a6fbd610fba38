"""A worker's lease client: asks, waits in any thread, gives back, and lets everybody go when the item stops."""

from __future__ import annotations

import queue
import threading

import pytest

from agentos.errors import AgentosError, BudgetReachedError, CallCancelledError, NoUsableKeyError, QuotaGoneError
from agentos.keys.lease_client import LeaseClient
from agentos.keys.leases import (
    Ask,
    Lease,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseRequest,
    LeaseReturn,
)
from agentos.providers.evidence import Abandoned, Succeeded

DEADLINE_SECONDS = 120.0
SECRET = "AIzaSyUnitTestSecret0123456789"


class Coordinator:
    """The other end of the socket."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[LeaseRequest] = queue.SimpleQueue()
        self.client = LeaseClient(self.heard.put)

    def hear(self) -> LeaseRequest:
        return self.heard.get(timeout=DEADLINE_SECONDS)

    def grant(self, ticket: int) -> None:
        self.client.deliver(
            LeaseGranted(
                ticket=ticket, lease=Lease(key_name="a", fence=7, provider="google", model="m", secret=SECRET)
            )
        )


class Caller:
    """A call in a thread of its own."""

    def __init__(self, client: LeaseClient) -> None:
        self._client = client
        self._result: Lease | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._client.acquire(Ask(provider="google", model="m", estimated_cost_usd=0.1))
        except AgentosError as error:
            self._result = error

    def result(self) -> Lease | BaseException | None:
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()
        return self._result


def ticket_of(message: LeaseRequest) -> int:
    assert isinstance(message, LeaseAsk)
    return message.ticket


def test_a_granted_key_comes_as_a_lease_and_goes_back_with_evidence() -> None:
    coordinator = Coordinator()
    caller = Caller(coordinator.client)
    coordinator.grant(ticket_of(coordinator.hear()))
    lease = caller.result()
    assert isinstance(lease, Lease)
    coordinator.client.release(lease, Succeeded())
    returned = coordinator.hear()

    assert (lease.key_name, lease.fence, lease.secret) == ("a", 7, SECRET)
    assert returned == LeaseReturn(fence=7, evidence=Succeeded())


@pytest.mark.parametrize(
    ("exit_code", "kind"), [(4, NoUsableKeyError), (5, BudgetReachedError), (75, QuotaGoneError), (1, AgentosError)]
)
def test_a_refusal_is_raised_as_what_it_is(exit_code: int, kind: type[AgentosError]) -> None:
    coordinator = Coordinator()
    caller = Caller(coordinator.client)
    ticket = ticket_of(coordinator.hear())
    coordinator.client.deliver(LeaseRefused(ticket=ticket, exit_code=exit_code, message="no"))
    error = caller.result()

    assert type(error) is kind
    assert str(error) == "no"


def test_stopping_lets_every_waiter_go_and_nobody_wait_again() -> None:
    coordinator = Coordinator()
    callers = [Caller(coordinator.client) for _ in range(3)]
    tickets = {ticket_of(coordinator.hear()) for _ in callers}
    coordinator.client.stop()
    assert all(isinstance(caller.result(), CallCancelledError) for caller in callers)
    cancelled = [coordinator.hear() for _ in callers]

    assert {message.ticket for message in cancelled if isinstance(message, LeaseCancel)} == tickets
    with pytest.raises(CallCancelledError):
        coordinator.client.acquire(Ask(provider="google", model="m"))


def test_a_key_that_comes_too_late_goes_straight_back() -> None:
    coordinator = Coordinator()
    coordinator.grant(99)
    returned = coordinator.hear()

    assert returned == LeaseReturn(fence=7, evidence=Abandoned())
