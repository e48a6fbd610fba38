"""What a call showed of its key, its quota and the provider: data only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a call consumed. `cost_usd` is None when the model's price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLimit:
    """A limit the provider told us: at most `value` of `what` in each `window_seconds`."""

    what: str
    """'requests', or which tokens: 'tokens' for all of them, 'input_tokens', 'output_tokens'."""
    value: int
    window_seconds: float
    remaining: int | None = None
    resets_in_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The provider answered."""

    usage: Usage = Usage()
    limits: tuple[LearnedLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTrouble:
    """What another key may still be good for: the pool knows which are left, and waits or refuses."""

    reason: str = ""
    """Made of codes, without any text of the provider's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited(KeyTrouble):
    """A short throttle of (group, model): wait `retry_after_seconds`, or back off if the provider did not say."""

    retry_after_seconds: float | None = None
    limits: tuple[LearnedLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSpent(KeyTrouble):
    """The (group, model) is out for the day, or for good: waiting seconds does not help."""

    resets_in_seconds: float | None = None
    """When the provider said so; None means its day decides."""
    never_resets: bool = False
    """`limit: 0`, no credit, spend limit: only the user can lift it."""
    words: str = ""
    """What the provider said about it, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(KeyTrouble):
    """The key itself is not accepted: invalid, expired, leaked, suspended, without permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overloaded:
    """The provider is busy. Marks no key."""

    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportFailed:
    """No answer: connection refused, reset or timed out. Marks no key."""

    reason: str = ""
    may_be_charged: bool = False
    """The request was let in, and what became of it nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotServed(KeyTrouble):
    """The key's account may not have this, or nobody's does: the answer to another group's key tells which.

    A model that is not there, a country that is not served, a request that is not allowed.
    """

    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """The request itself is wrong, whichever key sends it: never retried."""

    status: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """The call was cancelled or its holder died before an answer came. Marks no key."""


Evidence = (
    Succeeded
    | RateLimited
    | QuotaSpent
    | Rejected
    | NotServed
    | Overloaded
    | TransportFailed
    | RequestFailed
    | Abandoned
)


ClosesKey = RateLimited | QuotaSpent | Rejected
"""What closes a key for a while or for good: it is told, remembered, and news for other processes."""


class KeyState(NamedTuple):
    name: str
    """By `agentos keys` and in the memory of limits."""
    words: str
    """While a run tells of it."""


KEY_STATES: Final[dict[type[Evidence], KeyState]] = {
    RateLimited: KeyState("rate_limited", "rate-limited"),
    QuotaSpent: KeyState("out_of_quota", "out of quota"),
    Rejected: KeyState("rejected", "rejected"),
    NotServed: KeyState("not_served", "without this model"),
}
"""What a key is called after such evidence."""
