"""How providers limit, for simulations in virtual time: sliding and fixed minutes, buckets, limits that move."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MINUTE = 60.0

Limit = Callable[[float], int]
"""Requests per minute at a time."""


def constant(value: int) -> Limit:
    return lambda _now: value


@dataclass
class SlidingMinute:
    """At most the limit in any minute. Tells how long until the next request fits."""

    limit: Limit
    _accepted: deque[float] = field(default_factory=deque)

    def wait(self, now: float) -> float:
        """0 if the request is accepted."""
        while self._accepted and self._accepted[0] <= now - MINUTE:
            self._accepted.popleft()
        excess = len(self._accepted) + 1 - self.limit(now)
        if excess <= 0:
            self._accepted.append(now)
            return 0.0
        return self._accepted[excess - 1] + MINUTE - now


@dataclass
class FixedMinute:
    """At most the limit between two full minutes of the provider's clock."""

    limit: Limit
    _minute: int = -1
    _count: int = 0

    def wait(self, now: float) -> float:
        minute = int(now // MINUTE)
        if minute != self._minute:
            self._minute, self._count = minute, 0
        if self._count < self.limit(now):
            self._count += 1
            return 0.0
        return (minute + 1) * MINUTE - now


@dataclass
class Bucket:
    """A bucket of tokens that fills at the limit's rate."""

    limit: Limit
    size: int
    _tokens: float = -1.0
    _at: float = 0.0

    def wait(self, now: float) -> float:
        rate = self.limit(now) / MINUTE
        if self._tokens < 0:
            self._tokens, self._at = float(self.size), now
        self._tokens = min(float(self.size), self._tokens + (now - self._at) * rate)
        self._at = now
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / rate


Limiter = SlidingMinute | FixedMinute | Bucket


def earliest_end(accepted: Sequence[Sequence[float]], limit: int, calls: int, now: float) -> float:
    """When a client that never waits in vain has so many more calls accepted, from `now` on.

    `accepted` is what each group has taken before, in order; from `now` on each takes `limit` in any minute.
    """
    taken = [list(each) for each in accepted]

    def opening(group: list[float]) -> float:
        return max(now, group[-limit] + MINUTE) if len(group) >= limit else now

    for _ in range(calls):
        group = min(taken, key=opening)
        now = opening(group)
        group.append(now)
    return now
