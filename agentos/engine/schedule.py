"""The schedule: which item starts, waits, is skipped or left. Pure: no clock, no I/O, no threads.

Every item ends in exactly one way. The coordinator tells what happened and does what comes back.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Ending(Enum):
    """How an attempt ended, as far as the order of things is concerned."""

    DONE = auto()
    """Dependents may start."""
    NOT_DONE = auto()
    """It ended, but not well enough for its dependents: they are skipped."""
    CRASHED = auto()
    """Worth another attempt if any are left; otherwise like NOT_DONE."""
    LOST = auto()
    """Ended through no fault of its own (the engine lost its worker): resumes without using up an attempt."""
    INTERRUPTED = auto()
    """Stopped: it is left for the next run."""


@dataclass(frozen=True, slots=True)
class Start:
    item_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the item's worker to stop at the next safe point."""

    item_id: str


@dataclass(frozen=True, slots=True)
class Kill:
    item_id: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The item will not run: a dependency did not end well."""

    item_id: str
    dependency: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The item goes back to the queue for another attempt."""

    item_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing runs and nothing will: the run is over."""


Action = Start | Stop | Kill | Skip | Retry | Finish


class Schedule:
    """The state of one run's order. `order` decides among items that could start now."""

    def __init__(
        self,
        order: Sequence[str],
        depends_on: Mapping[str, Sequence[str]] | None = None,
        *,
        limit: int,
        retries: int = 0,
        absent: Collection[str] = (),
        done: Collection[str] = (),
        exclusive: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`absent` items are somebody else's: they never start, and their dependents are skipped. `done` items do not
        start either, and their dependents need not wait.

        `exclusive` names items that must not run beside each other; one entry of a pair is enough. An item that would
        have to wait for a rival is passed over until the rival ends, however that ends.
        """
        self._place = {item_id: index for index, item_id in enumerate(order)}
        depends_on = depends_on or {}
        self._waits_for = {
            i: {d for d in depends_on.get(i, ()) if d in self._place and d not in done} for i in self._place
        }
        self._dependents: dict[str, list[str]] = {item_id: [] for item_id in self._place}
        for item_id, dependencies in self._waits_for.items():
            for dependency in dependencies:
                self._dependents[dependency].append(item_id)
        self._rivals: dict[str, set[str]] = {}
        for item_id, others in (exclusive or {}).items():
            for other in others:
                self._rivals.setdefault(item_id, set()).add(other)
                self._rivals.setdefault(other, set()).add(item_id)
        not_ours = {*absent, *done}
        self._ready = [(place, i) for i, place in self._place.items() if not self._waits_for[i] and i not in not_ours]
        heapq.heapify(self._ready)
        self._attempts = dict.fromkeys(self._place, 0)
        self._forgiven = dict.fromkeys(self._place, 0)
        """Attempts that no longer count: a person wants another one."""
        self._withdrawn: set[str] = set()
        self._skipped: set[str] = set()
        self._running: set[str] = set()
        self._absent = [item_id for item_id in order if item_id in absent]
        self._open: dict[str, None] = dict.fromkeys(i for i in order if i not in not_ours)
        self._limit = limit
        self._retries = retries
        self._is_stopping = False
        self._is_finished = False

    @property
    def running(self) -> frozenset[str]:
        return frozenset(self._running)

    @property
    def left(self) -> tuple[str, ...]:
        """Items that have not ended, in order."""
        return tuple(sorted(self._open, key=self._place.__getitem__))

    @property
    def withdrawn(self) -> frozenset[str]:
        """Items that are left for the next run, or will be when their workers have stopped."""
        return frozenset(self._withdrawn & self._open.keys())

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._place

    def unmet(self, item_id: str) -> tuple[str, ...]:
        """Dependencies of the item that are not done, in order."""
        return tuple(sorted(self._waits_for[item_id], key=self._place.__getitem__))

    def skipped_for(self, item_id: str) -> list[str]:
        """Items that were skipped because this one, or one that was skipped for it, did not end well.

        Without those that wait for another one which did not end well either.
        """
        found = [item_id]
        for cause in found:
            for each in self._dependents[cause]:
                may_start = all(other in self._open or other in found for other in self._waits_for[each])
                if each in self._skipped and each not in found and may_start:
                    found.append(each)
        return found[1:]

    def next_up(self, count: int) -> list[str]:
        """Items that could start now if there were places, first attempts only, in order."""
        found: list[str] = []
        looked_at: list[tuple[int, str]] = []
        while self._ready and not self._is_stopping and len(found) < count:
            looked_at.append(heapq.heappop(self._ready))
            item_id = looked_at[-1][1]
            if not self._attempts[item_id] and self._has_no_rival_running(item_id):
                found.append(item_id)
        for entry in looked_at:
            heapq.heappush(self._ready, entry)
        return found

    def begin(self) -> list[Action]:
        skips = [action for item_id in self._absent for action in self._skip_dependents(item_id)]
        return skips + self._advance()

    def ended(self, item_id: str, ending: Ending) -> list[Action]:
        """A running item's attempt ended. Telling it twice, or of an item that does not run, is a caller's bug."""
        self._running.remove(item_id)
        actions: list[Action] = []
        match ending:
            case Ending.DONE:
                del self._open[item_id]
                self._release_dependents(item_id)
            case Ending.CRASHED | Ending.LOST if self._may_go_on(item_id, ending):
                if ending is Ending.LOST:
                    self._attempts[item_id] -= 1
                heapq.heappush(self._ready, (self._place[item_id], item_id))
                actions.append(Retry(item_id, self._attempts[item_id]))
            case Ending.NOT_DONE | Ending.CRASHED:
                del self._open[item_id]
                actions += self._skip_dependents(item_id)
            case Ending.LOST | Ending.INTERRUPTED:
                self._attempts[item_id] -= 1  # It was stopped, and did not fail: the next one is no further attempt.
        return actions + self._advance()

    def has_retries(self, item_id: str) -> bool:
        """Whether it would be tried again if it crashed now; a person who retries it gives it all attempts again."""
        return self._attempts[item_id] - self._forgiven[item_id] <= self._retries

    def limit_changed(self, limit: int) -> list[Action]:
        """More or fewer may run at once. Running items are never stopped for it."""
        self._limit = limit
        return self._advance()

    def withdraw(self, item_id: str) -> list[Action]:
        """An item that has not ended does not start any more: it is left for the next run."""
        self._withdrawn.add(item_id)
        self._leave_queue(item_id)
        return self._advance()

    def skip(self, item_id: str) -> list[Action]:
        """An item that does not run will not, nor will its dependents."""
        del self._open[item_id]
        self._leave_queue(item_id)
        return self._skip_dependents(item_id) + self._advance()

    def reopen(self, item_id: str) -> list[Action]:
        """An item that ended, or was withdrawn, starts again, and with it those that were skipped for it."""
        self._withdrawn.discard(item_id)
        self._forgiven[item_id] = self._attempts[item_id]
        for reopened in [item_id, *self.skipped_for(item_id)]:
            self._open[reopened] = None
            self._skipped.discard(reopened)
            if not self._waits_for[reopened]:
                heapq.heappush(self._ready, (self._place[reopened], reopened))
        return self._advance()

    def stop(self, *, at_once: bool = False) -> list[Action]:
        """Nothing new starts; running items are asked to stop, or killed."""
        self._is_stopping = True
        in_order = sorted(self._running, key=self._place.__getitem__)
        actions: list[Action] = [Kill(i) if at_once else Stop(i) for i in in_order]
        return actions + self._advance()

    def _may_go_on(self, item_id: str, ending: Ending) -> bool:
        if self._is_stopping:
            return False
        if item_id in self._withdrawn:
            return False
        return ending is Ending.LOST or self.has_retries(item_id)

    def _release_dependents(self, item_id: str) -> None:
        for dependent in self._dependents[item_id]:
            self._waits_for[dependent].discard(item_id)
            if not self._waits_for[dependent] and dependent in self._open and dependent not in self._withdrawn:
                heapq.heappush(self._ready, (self._place[dependent], dependent))

    def _skip_dependents(self, item_id: str) -> list[Action]:
        skips: list[Action] = []
        queue = [item_id]
        while queue:
            cause = queue.pop(0)
            for dependent in self._dependents[cause]:
                if dependent in self._open:
                    del self._open[dependent]
                    self._skipped.add(dependent)
                    skips.append(Skip(dependent, cause))
                    queue.append(dependent)
        return skips

    def _leave_queue(self, item_id: str) -> None:
        self._ready = [entry for entry in self._ready if entry[1] != item_id]
        heapq.heapify(self._ready)

    def _has_no_rival_running(self, item_id: str) -> bool:
        return self._running.isdisjoint(self._rivals.get(item_id, ()))

    def _advance(self) -> list[Action]:
        actions: list[Action] = []
        passed_over: list[tuple[int, str]] = []
        while self._ready and not self._is_stopping and len(self._running) < self._limit:
            place, item_id = heapq.heappop(self._ready)
            if not self._has_no_rival_running(item_id):
                passed_over.append((place, item_id))
                continue
            self._attempts[item_id] += 1
            self._running.add(item_id)
            actions.append(Start(item_id, self._attempts[item_id]))
        for entry in passed_over:
            heapq.heappush(self._ready, entry)
        if not self._running and (self._is_stopping or not self._ready) and not self._is_finished:
            self._is_finished = True
            actions.append(Finish())
        return actions
