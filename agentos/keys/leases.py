"""The lease of a key for one model call, and where a call gets it. Data only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agentos.providers.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A key held for one model call."""

    key_name: str
    fence: int
    """Grows with every lease; a release with an old fence changes no lease, though its evidence counts."""
    provider: str
    model: str
    secret: str = field(repr=False)


class LeaseBroker(Protocol):
    """Where a model call gets its key. A worker's broker speaks over its socket; alone, one owns the pool."""

    def acquire(
        self,
        *,
        provider: str,
        model: str,
        estimated_tokens: int = 0,
        estimated_cost_usd: float | None = None,
    ) -> Lease:
        """Wait, in order, for a key. Raises NoUsableKeyError, QuotaGoneError or BudgetReachedError."""
        ...

    def release(self, lease: Lease, evidence: Evidence) -> None:
        """Give the key back with what the call showed. Exactly once for each lease."""
        ...
