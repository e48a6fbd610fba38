"""What a provider allows each (group, model) in a minute and in a day. Pure: the clock is passed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

What = Literal["requests", "tokens"]
Period = Literal["minute", "day"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None means unlimited."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The limit that a call would have broken."""

    what: What
    period: Period
    limit: int
    retry_after_seconds: float


@dataclass(slots=True)
class Window:
    """At most `limit` in any span of `seconds`, counted over a sliding window."""

    limit: int
    seconds: float
    _spent: deque[tuple[float, int]] = field(default_factory=deque)
    _total: int = 0

    def remaining(self, now: float) -> int:
        self._forget(now)
        return max(0, self.limit - self._total)

    def seconds_until(self, amount: int, now: float) -> float:
        """How long until `amount` more fits; 0 when it fits now. More than the limit fits once all is free."""
        self._forget(now)
        excess = self._total + min(amount, self.limit) - self.limit
        if self.limit == 0:
            return self.seconds
        for spent_at, spent in self._spent:
            if excess <= 0:
                break
            excess -= spent
            if excess <= 0:
                return max(spent_at + self.seconds - now, 0.0)
        return 0.0

    def resets_in(self, now: float) -> float:
        """How long until the window is empty again if nothing else is spent."""
        self._forget(now)
        return max(self._spent[-1][0] + self.seconds - now, 0.0) if self._spent else 0.0

    def spend(self, amount: int, now: float) -> None:
        self._spent.append((now, amount))
        self._total += amount

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0][0] + self.seconds <= now:
            self._total -= self._spent.popleft()[1]


class Quota:
    """The windows of one (group, model). A refused call spends nothing."""

    def __init__(self, limits: Limits, *, minute_seconds: float, day_seconds: float) -> None:
        spans: list[tuple[What, Period, int | None, float]] = [
            ("requests", "day", limits.requests_per_day, day_seconds),
            ("requests", "minute", limits.requests_per_minute, minute_seconds),
            ("tokens", "minute", limits.tokens_per_minute, minute_seconds),
        ]
        self.windows: dict[tuple[What, Period], Window] = {
            (what, period): Window(limit, seconds) for what, period, limit, seconds in spans if limit is not None
        }

    def admit(self, tokens: int, now: float) -> Refusal | None:
        """Spend one request of `tokens`, or say which limit forbids it."""
        amounts = {"requests": 1, "tokens": tokens}
        for (what, period), window in self.windows.items():
            wait_seconds = window.seconds_until(amounts[what], now)
            if wait_seconds > 0:
                return Refusal(what=what, period=period, limit=window.limit, retry_after_seconds=wait_seconds)
        for (what, _), window in self.windows.items():
            window.spend(amounts[what], now)
        return None
