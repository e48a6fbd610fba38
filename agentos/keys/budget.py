"""Money: reserved before a call, settled after it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

WARN_SHARE = 0.8


class Funds(Protocol):
    """What calls are paid from."""

    cap_usd: float

    @property
    def spent_usd(self) -> float: ...

    @property
    def day(self) -> str:
        """The UTC day that the cap is for; empty for that of a run."""
        ...

    @property
    def problem(self) -> str:
        """Why nothing fits, when that is no question of money."""
        ...

    @property
    def retry_seconds(self) -> float | None:
        """How soon what does not fit may fit without anybody saying so; None: not by itself."""
        ...

    def fits(self, estimate_usd: float) -> bool: ...
    def could_fit_later(self, estimate_usd: float) -> bool: ...
    def reserve(self, fence: int, estimate_usd: float) -> bool:
        """False when another process has been faster: then nothing is reserved."""
        ...

    def settle(self, fence: int, cost_usd: float) -> None: ...
    def write_off(self, fence: int) -> None: ...
    def warning_due(self) -> bool: ...
    def close(self) -> None: ...


class Budget:
    """A cap over all calls of a batch. What is reserved counts as spent until the call says what it really cost."""

    day = problem = ""
    retry_seconds: float | None = None

    def __init__(
        self, cap_usd: float, spent_usd: float = 0.0, on_spent: Callable[[float], None] = lambda _spent_usd: None
    ) -> None:
        """`spent_usd` is what earlier runs of the batch have spent; `on_spent` hears of each change."""
        self.cap_usd = cap_usd
        self.spent_usd = spent_usd
        self._on_spent = on_spent
        self._reserved: dict[int, float] = {}
        self._warnings = SpendingWarnings()

    @property
    def reserved_usd(self) -> float:
        return sum(self._reserved.values())

    def fits(self, estimate_usd: float) -> bool:
        return self.spent_usd + self.reserved_usd + estimate_usd <= self.cap_usd

    def could_fit_later(self, estimate_usd: float) -> bool:
        """Calls in flight may cost less than was reserved for them."""
        return bool(self._reserved)

    def reserve(self, fence: int, estimate_usd: float) -> bool:
        self._reserved[fence] = estimate_usd
        return True

    def settle(self, fence: int, cost_usd: float) -> None:
        """The call is over. Settling twice counts the cost twice but never frees anything."""
        self._reserved.pop(fence, None)
        self._spend(cost_usd)

    def write_off(self, fence: int) -> None:
        """The call's end will never be known: it counts as what was reserved for it."""
        self._spend(self._reserved.pop(fence, 0.0))

    def _spend(self, cost_usd: float) -> None:
        if cost_usd:
            self.spent_usd += cost_usd
            self._on_spent(self.spent_usd)

    def warning_due(self) -> bool:
        """True once at 80 % and once at 100 %."""
        return self._warnings.is_due(self.spent_usd, self.cap_usd)

    def close(self) -> None:
        """It ends with its run."""


class SpendingWarnings:
    """Once at 80 % and once at 100 %."""

    def __init__(self) -> None:
        self._warned_share = 0.0

    def is_due(self, spent_usd: float, cap_usd: float) -> bool:
        share = spent_usd / cap_usd if cap_usd > 0 else 1.0
        reached = 1.0 if share >= 1.0 else WARN_SHARE if share >= WARN_SHARE else 0.0
        is_due = reached > self._warned_share
        self._warned_share = max(self._warned_share, reached)
        return is_due
