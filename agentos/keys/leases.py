"""What passes between a model call and the broker of keys: asks, leases, evidence. Data only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agentos.errors import (
    AgentosError,
    BudgetReachedError,
    NoOtherKeyError,
    NoUsableKeyError,
    QuotaGoneError,
    UsageError,
)
from agentos.providers.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call's wish for a key."""

    provider: str
    model: str
    estimated_tokens: int = 0
    estimated_cost_usd: float | None = None
    """With an answer of `most_output_tokens`."""
    most_output_tokens: int | None = None
    call: int = 0
    """The asker's number for the call: the same in all of its attempts. 0 if it makes only one."""
    has_fallback: bool = False
    """Another model is asked if no key of this one serves soon."""
    refused_by: tuple[str, ...] = ()
    """Keys whose accounts would not serve the request: only one of another group tells whether any does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A key held for one model call."""

    key_name: str
    fence: int
    """Grows with every lease; a release with an old fence changes no lease, though its evidence counts."""
    provider: str
    model: str
    secret: str = field(repr=False)
    """Empty for a model that is called without a key."""
    through: str = ""
    """The gateway that the call has to take, if there is one: the secret is then a token that it puts the key for."""
    most_output_tokens: int | None = None
    """What the answer must not exceed: no more money is reserved for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAsk:
    """To the broker: a call wants a key. Answered by LeaseGranted or LeaseRefused, whenever that is."""

    ticket: int
    """The caller's own number for it."""
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCancel:
    """To the broker: the call no longer wants one."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReturn:
    """To the broker: the key comes back, with what the call showed."""

    fence: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGranted:
    """From the broker: the key, for one call."""

    ticket: int
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRefused:
    """From the broker: waiting would not help. `exit_code` names the kind of error."""

    ticket: int
    exit_code: int
    message: str
    is_for_want_of_another: bool = False
    """There is no other key to try with what some have refused."""

    def error(self) -> AgentosError:
        if self.is_for_want_of_another:
            return NoOtherKeyError(self.message)
        return _REFUSALS.get(self.exit_code, AgentosError)(self.message)


LeaseRequest = LeaseAsk | LeaseCancel | LeaseReturn
LeaseAnswer = LeaseGranted | LeaseRefused

_REFUSALS: dict[int, type[AgentosError]] = {
    int(kind.exit_code): kind for kind in (NoUsableKeyError, BudgetReachedError, QuotaGoneError, UsageError)
}


class LeaseBroker(Protocol):
    """Where a model call gets its key: over a worker's socket, or from a broker in the same process."""

    def acquire(self, ask: Ask) -> Lease:
        """Wait, in order, for a key.

        Raises NoUsableKeyError, QuotaGoneError, BudgetReachedError, CallCancelledError if the process is stopping, or
        NoOtherKeyError if the ask is refused by some keys and no other can be tried.
        """
        ...

    def release(self, lease: Lease, evidence: Evidence) -> None:
        """Give the key back with what the call showed. Exactly once for each lease."""
        ...
