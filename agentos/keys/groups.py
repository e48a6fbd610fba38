"""Keys and the groups that share a quota: which key of a group is free, and which was used least recently. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from agentos.keys.key_spec import KeySpec
from agentos.keys.pace import DAY_SECONDS, MINUTE_SECONDS, WindowKey
from agentos.keys.quota import Quota
from agentos.providers.registry import providers

GroupId = tuple[str, str]
"""(provider, group name)."""


@dataclass(slots=True, eq=False)
class PooledKey:
    spec: KeySpec
    order: int
    in_use: int = 0
    calls: int = 0
    used_turn: int = 0
    last_used: float | None = None
    is_removed: bool = False
    rejection: str | None = None
    is_proven: bool = False
    """A call has shown that the key is let in. Until then it gets one call at a time: it may be dead."""
    secret_fence: int = 0
    """Leases up to this one were made with an older secret: their rejection says nothing of this one."""

    @property
    def is_valid(self) -> bool:
        return not self.is_removed and self.rejection is None

    @property
    def is_free(self) -> bool:
        return self.is_valid and self.in_use < (self.spec.max_concurrent if self.is_proven else 1)


class Group:
    """Keys that share one quota for each model."""

    def __init__(self, group_id: GroupId) -> None:
        self.id = group_id
        self.keys: dict[str, PooledKey] = {}
        self.quotas: dict[str, Quota] = {}
        self.used_turn = 0
        self._free: list[tuple[int, int, str]] = []
        self._listed: set[str] = set()

    @property
    def has_valid_key(self) -> bool:
        return any(key.is_valid for key in self.keys.values())

    def configured_limits(self) -> dict[WindowKey, int]:
        """The least of what the group's keys are configured with: they draw on one quota."""
        limits: dict[WindowKey, int] = {}
        provider = providers().get(self.id[0])
        tokens = provider.tpm_counts if provider is not None else "tokens"
        for spec in (key.spec for key in self.keys.values()):
            for window, value in (
                (("requests", MINUTE_SECONDS), spec.rpm),
                ((tokens, MINUTE_SECONDS), spec.tpm),
                (("requests", DAY_SECONDS), spec.rpd),
            ):
                if value is not None:
                    limits[window] = min(value, limits.get(window, value))
        return limits

    def list_if_free(self, key: PooledKey) -> None:
        """Call after anything that may have made the key free."""
        if key.is_free and key.spec.name not in self._listed:
            self._listed.add(key.spec.name)
            heapq.heappush(self._free, (key.used_turn, key.order, key.spec.name))

    def free_key(self) -> PooledKey | None:
        """The least recently used free key; it stays listed."""
        while self._free:
            turn, _, name = self._free[0]
            key = self.keys.get(name)
            if key is not None and key.is_free and turn == key.used_turn:
                return key
            heapq.heappop(self._free)
            self._listed.discard(name)
            if key is not None:
                self.list_if_free(key)
        return None
