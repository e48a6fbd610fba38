"""Standby workers, made before their turn: each opens its item and waits at its first node for a free place.

An item on standby has not started: nothing of it is shown or recorded, no node has run, and it can be dropped without
a trace. What its worker says meanwhile is kept, and heard when the item starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from agentos.engine.backends.protocol import WorkerEvents, WorkerExit
from agentos.engine.checkpoints.protocol import FenceRefused
from agentos.engine.item_store import ItemStore
from agentos.engine.loop import Loop, Timer
from agentos.engine.messages import Heartbeat, ItemOpened, NodeReady, UpMessage
from agentos.events import ItemNoticed, Listener

_PREPARE_AFTER_SECONDS = 0.05
"""How long no item may have started before the next ones are made ready: starts come in bursts."""


@dataclass(slots=True)
class _StandbyWorker:
    had_checkpoint: bool
    """Its database was there before: it stays when the worker is dropped."""
    notice: str = ""
    """What its worker found when it opened the item. Told though the item may never start: it is so from now on."""
    is_waiting: bool = False
    """It has come to its first node."""
    heard: list[UpMessage | bytes] = field(default_factory=list)
    """What it has said and written, in order."""


class Standby:
    """Who is on standby, and when the next one is."""

    def __init__(
        self,
        most: int,
        loop: Loop,
        store: ItemStore,
        emit: Listener,
        *,
        when_store_answers: Callable[[Callable[[], None]], None],
        next_up: Callable[[int], Iterable[str]],
        make_worker: Callable[[str], None],
        may_prepare: Callable[[], bool],
    ) -> None:
        """`next_up(count)` are the items that could start now if there were places, in order.

        `make_worker` raises when there is nothing to make it of, or its input cannot be sent. `may_prepare`: nobody
        else needs the time.
        """
        self._most = most
        self._loop = loop
        self._store = store
        self._emit = emit
        self._when_store_answers = when_store_answers
        self._next_up = next_up
        self._make_worker = make_worker
        self._may_prepare = may_prepare
        self._workers: dict[str, _StandbyWorker] = {}
        self._spoiled: set[str] = set()
        self._timer: Timer | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._workers))

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._workers

    def plan(self) -> None:
        """An item has started; others may be about to, and those come first."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(_PREPARE_AFTER_SECONDS, self.prepare)

    def prepare(self) -> None:
        """Make the next item ready. One after the other: those that run, end and start need the processors more."""
        if self._may_prepare() and len(self._workers) < self._most:
            self._when_store_answers(self._prepare)

    def _prepare(self) -> None:
        if not self._may_prepare() or len(self._workers) >= self._most:
            return
        if not all(worker.is_waiting for worker in self._workers.values()):
            return
        item_id = next((i for i in self._next_up(self._most + 1) if self._can_prepare(i)), None)
        if item_id is None:
            return
        try:
            had_checkpoint = self._store.has_checkpoint(item_id)
        except OSError:
            return  # A database that does not answer: the item starts in its turn, and waits for it then.
        self._workers[item_id] = _StandbyWorker(had_checkpoint=had_checkpoint)
        try:
            self._make_worker(item_id)
        except Exception:
            self._spoil(item_id)

    def hear(self, item_id: str, heard: UpMessage | bytes) -> None:
        """What its worker said or wrote."""
        worker = self._workers[item_id]
        match heard:
            case Heartbeat():
                return
            case ItemOpened(notice=notice):
                worker.notice = notice
            case NodeReady():
                worker.is_waiting = True
        worker.heard.append(heard)
        if worker.is_waiting:
            self.prepare()

    def hand_over(self, item_id: str, events: WorkerEvents) -> bool:
        """The item starts: tell what its worker has said and written so far. False when it has no worker."""
        worker = self._workers.pop(item_id, None)
        if worker is None:
            return False
        for heard in worker.heard:
            if isinstance(heard, bytes):
                events.worker_wrote(item_id, heard)
            else:
                events.worker_said(item_id, heard)
        return True

    def worker_gone(self, item_id: str, end: WorkerExit) -> None:
        """Lost with its backend, it may be made ready again."""
        if end.code is None:
            self._drop(item_id)
        else:
            self._spoil(item_id)
        self.prepare()

    def close(self) -> None:
        """All workers are gone."""
        for item_id in self:
            self._drop(item_id)

    def _can_prepare(self, item_id: str) -> bool:
        return item_id not in self._workers and item_id not in self._spoiled

    def _spoil(self, item_id: str) -> None:
        """Making it ready did not work. It is not tried again: the item starts in its turn, and says why then."""
        self._drop(item_id)
        self._spoiled.add(item_id)

    def _drop(self, item_id: str) -> None:
        worker = self._workers.pop(item_id)
        if worker.notice:
            self._emit(ItemNoticed(item_id=item_id, text=worker.notice))
        if not worker.had_checkpoint:
            # No node has run: what cannot be removed is as good as new.
            with suppress(OSError, FenceRefused):
                self._store.remove_checkpoint(item_id)
