"""How many items may run at once: as many as asked for and as keys, memory and nodes carry; none in a pause."""

from __future__ import annotations

from collections.abc import Callable

from agentos.engine.limits import MAX_PARALLELISM
from agentos.engine.loop import Loop
from agentos.engine.memory_watch import WATCH_SECONDS, available_share, next_limit, read_meminfo
from agentos.events import Listener, ParallelismChanged


class ItemLimit:
    """`on_change` hears of each new limit."""

    def __init__(
        self,
        wanted: int,
        loop: Loop,
        emit: Listener,
        on_change: Callable[[int], None],
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wanted = self._by_keys = self._by_memory = wanted
        self._by_backend: int | None = None
        self._is_paused = is_paused
        self._loop = loop
        self._emit = emit
        self._on_change = on_change

    def begin(self) -> None:
        """Watch the memory only where many run at once: a few workers are the user's own business."""
        if self.wanted > MAX_PARALLELISM:
            self._watch_memory()

    def limit_by_keys(self, count: int) -> None:
        self._by_keys = count
        self.follow()

    def limit_by_backend(self, count: int) -> None:
        self._by_backend = count
        self.follow()

    def want(self, count: int, reason: str) -> None:
        """Somebody asks for another number while the run is under way."""
        self._emit(ParallelismChanged(now=count, before=self.wanted, reason=reason))
        self.wanted = self._by_memory = count
        self.follow()

    def follow(self) -> None:
        """Say what the limit is now."""
        limits = [self._by_keys, self._by_memory, *([] if self._by_backend is None else [self._by_backend])]
        self._on_change(0 if self._is_paused() else min(limits))

    def _watch_memory(self) -> None:
        limit = next_limit(self._by_memory, self.wanted, available_share(read_meminfo()))
        if limit != self._by_memory:
            reason = "memory is nearly used up" if limit < self._by_memory else "there is memory again"
            self._emit(ParallelismChanged(now=limit, before=self._by_memory, reason=reason))
            self._by_memory = limit
            self.follow()
        self._loop.after(WATCH_SECONDS, self._watch_memory)
