"""Workers made before their turn: each opens its item and waits at its first node, for a place to become free.

An item that is ready has not started: nothing of it is shown or recorded, no node has run, and it can be dropped
without a trace. What its worker says meanwhile is kept, and heard when the item starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

Heard = Callable[[], None]


@dataclass(slots=True)
class ReadyWorker:
    pid: int = 0
    had_checkpoint: bool = False
    """Its database was there before: it stays when the worker is dropped."""
    notice: str = ""
    """What its worker found when it opened the item. Told though the item may never start: it is so from now on."""
    is_waiting: bool = False
    """It has come to its first node."""
    heard: list[Heard] = field(default_factory=list)
    """What to do, in order, when the item starts."""


class Ahead:
    """Who is ready, and who should be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._ready: dict[str, ReadyWorker] = {}
        self._spoiled: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._ready))

    def get(self, item_id: str) -> ReadyWorker | None:
        return self._ready.get(item_id)

    def add(self, next_up: Iterable[str]) -> str | None:
        """The one of the items next in line that gets a worker now, if any. It counts as ready from here on.

        One after the other: those that run, end and start need the processors more.
        """
        if len(self._ready) >= self.most or not all(ready.is_waiting for ready in self._ready.values()):
            return None
        for item_id in next_up:
            if item_id not in self._ready and item_id not in self._spoiled:
                self._ready[item_id] = ReadyWorker()
                return item_id
        return None

    def take(self, item_id: str) -> ReadyWorker | None:
        """The item starts, or is given up. None: it has no worker."""
        return self._ready.pop(item_id, None)

    def spoil(self, item_id: str) -> None:
        """Making it ready did not work. It is not tried again: the item starts in its turn, and says why then."""
        self._spoiled.add(item_id)
