"""A lease broker for tests: hands out given keys in order, puts limited ones aside, remembers every lease."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from agentos.errors import NoOtherKeyError, NoUsableKeyError
from agentos.keys.leases import Ask, Lease
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, Rejected


class RecordingBroker:
    """Keys by name and secret. A key whose release tells of a limit or a rejection is not handed out again."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._lock = threading.Lock()
        self._out: set[str] = set()
        self.acquired: list[Lease] = []
        self.released: list[tuple[Lease, Evidence]] = []
        self.estimates: list[tuple[int, float | None]] = []

    def acquire(self, ask: Ask) -> Lease:
        with self._lock:
            left = [name for name in self._keys if name not in self._out and name not in ask.refused_by]
            name = left[0] if left else None
            if name is None and ask.refused_by:
                raise NoOtherKeyError("No other key.")
            if name is None:
                raise NoUsableKeyError(f"No usable key for {ask.provider}: {', '.join(self._keys)}.")
            lease = Lease(
                key_name=name,
                fence=len(self.acquired) + 1,
                provider=ask.provider,
                model=ask.model,
                secret=self._keys[name],
            )
            self.acquired.append(lease)
            self.estimates.append((ask.estimated_tokens, ask.estimated_cost_usd))
            return lease

    def release(self, lease: Lease, evidence: Evidence) -> None:
        with self._lock:
            self.released.append((lease, evidence))
            if isinstance(evidence, RateLimited | QuotaSpent | Rejected):
                self._out.add(lease.key_name)

    def reopen(self) -> None:
        """Hand out every key again."""
        with self._lock:
            self._out.clear()

    @property
    def evidence(self) -> list[Evidence]:
        return [evidence for _, evidence in self.released]

    def is_settled(self) -> bool:
        """Every lease came back, and exactly once."""
        return sorted(lease.fence for lease, _ in self.released) == [lease.fence for lease in self.acquired]
