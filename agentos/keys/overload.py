"""An overloaded provider's pause: when overload is believed, and how long no call goes there. Pure."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field

from agentos.keys.quota import clean_delay
from agentos.providers.evidence import Overloaded

BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
WITNESSES = 8
MEMORY_SECONDS = 120.0
"""How many of the latest calls, and how far back, count for whether a provider is overloaded."""


@dataclass(slots=True)
class OverloadPause:
    """No call goes to the provider before `until`."""

    until: float = 0.0
    _strikes: int = 0
    _fence: int = -1
    _latest: OrderedDict[str, tuple[float, bool]] = field(default_factory=OrderedDict)
    """The latest calls: when they were answered, and whether with an overload."""

    def blame(
        self, now: float, call: str, fence: int, said: Overloaded, rng: random.Random, *, newest_fence: int
    ) -> None:
        """Overload is believed when several calls say so. A request that fails alone is its caller's to try again."""
        self._note(now, call, is_overload=True)
        if not self._is_believed:
            return
        if fence > self._fence:
            self._fence = newest_fence
            self._strikes += 1
        backoff = min(BASE_SECONDS * 2.0 ** min(self._strikes - 1, 30), CAP_SECONDS)
        wait = max(clean_delay(said.retry_after_seconds) or 0.0, backoff)
        self.until = max(self.until, now + wait + rng.uniform(0.0, 0.25 * backoff))

    def clear(self, now: float, call: str, fence: int) -> None:
        """A call went well. If it began after the pause, the next overload starts small again."""
        self._note(now, call, is_overload=False)
        if fence > self._fence:
            self._strikes = 0

    def _note(self, now: float, call: str, *, is_overload: bool) -> None:
        self._latest.pop(call, None)
        self._latest[call] = (now, is_overload)
        while len(self._latest) > WITNESSES or self._oldest < now - MEMORY_SECONDS:
            self._latest.popitem(last=False)

    @property
    def _oldest(self) -> float:
        return next(iter(self._latest.values()))[0]

    @property
    def _is_believed(self) -> bool:
        """One request may fail for itself however often it is sent; several, and most of the latest, do not."""
        overloads = sum(is_overload for _, is_overload in self._latest.values())
        return overloads >= 2 and 2 * overloads >= len(self._latest)
