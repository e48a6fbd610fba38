"""Money: reserved before a call, settled after it. Pure."""

from __future__ import annotations

from collections.abc import Callable

WARN_SHARE = 0.8


class Budget:
    """A cap over all calls of a batch. What is reserved counts as spent until the call says what it really cost."""

    def __init__(
        self, cap_usd: float, spent_usd: float = 0.0, on_spent: Callable[[float], None] = lambda _spent_usd: None
    ) -> None:
        """`spent_usd` is what earlier runs of the batch have spent; `on_spent` hears of each change."""
        self.cap_usd = cap_usd
        self.spent_usd = spent_usd
        self._on_spent = on_spent
        self._reserved: dict[int, float] = {}
        self._warned_share = 0.0

    @property
    def reserved_usd(self) -> float:
        return sum(self._reserved.values())

    def fits(self, estimate_usd: float) -> bool:
        return self.spent_usd + self.reserved_usd + estimate_usd <= self.cap_usd

    def could_fit_later(self) -> bool:
        """Calls in flight may cost less than was reserved for them."""
        return bool(self._reserved)

    def reserve(self, fence: int, estimate_usd: float) -> None:
        self._reserved[fence] = estimate_usd

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
        share = self.spent_usd / self.cap_usd if self.cap_usd > 0 else 1.0
        reached = 1.0 if share >= 1.0 else WARN_SHARE if share >= WARN_SHARE else 0.0
        is_due = reached > self._warned_share
        self._warned_share = max(self._warned_share, reached)
        return is_due
