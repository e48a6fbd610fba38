"""When to try a model call again. Pure: the only owner of retries asks here, nobody else retries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from agentos.llm.types import Attempted
from agentos.providers.evidence import (
    Abandoned,
    KeyTrouble,
    Overloaded,
    RequestFailed,
    Succeeded,
    TransportFailed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a busy or silent provider is tried before the call fails."""

    overload_attempts: int = 6
    transport_attempts: int = 4
    timeout_attempts: int = 2
    """A call that timed out most often times out again, at full price: one more try, not many."""
    base_seconds: float = 0.5
    cap_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures of one call so far that count against its bounds."""

    overloads: int = 0
    transports: int = 0
    timeouts: int = 0


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Ask for a key again after `delay_seconds`; the broker then decides how long a limited key waits."""

    delay_seconds: float
    failures: Failures


@dataclass(frozen=True, slots=True)
class GiveUp:
    attempts: int


def after_failure(attempted: Attempted, failures: Failures, policy: RetryPolicy, jitter: float) -> TryAgain | GiveUp:
    """What follows an attempt without an answer. `jitter` is a random number from 0 to 1."""
    match attempted.evidence:
        case KeyTrouble():
            return TryAgain(0.0, failures)
        case Overloaded(retry_after_seconds=asked):
            count = failures.overloads + 1
            if count >= policy.overload_attempts:
                return GiveUp(count)
            delay = max(backoff_seconds(count, policy, jitter), asked or 0.0)
            return TryAgain(delay, replace(failures, overloads=count))
        case TransportFailed():
            count = failures.transports + 1
            timeouts = failures.timeouts + (1 if attempted.timed_out else 0)
            if count >= policy.transport_attempts or timeouts >= policy.timeout_attempts:
                return GiveUp(count)
            delay = backoff_seconds(count, policy, jitter)
            return TryAgain(delay, replace(failures, transports=count, timeouts=timeouts))
        case RequestFailed() | Abandoned() | Succeeded():
            return GiveUp(1)
        case _:
            assert_never(attempted.evidence)


def backoff_seconds(failures: int, policy: RetryPolicy, jitter: float) -> float:
    """Doubling from the base up to the cap; between half and all of it, so that callers do not return in step."""
    full = min(policy.cap_seconds, policy.base_seconds * 2.0 ** min(failures - 1, 30))
    return full * (0.5 + jitter / 2)
