"""The queue of one (provider, model), fair between owners, and which groups are worth trying for its head. Pure."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from agentos.keys.groups import Group
from agentos.keys.pace import CLOCK_GRAIN_SECONDS

LaneId = tuple[str, str, frozenset[str]]
"""(provider, model, groups that are not to serve)."""


@dataclass(slots=True)
class Waiter:
    ticket: int
    owner: str
    call: str
    """The call it is an attempt of, among all owners."""
    lane_id: LaneId
    tokens: int
    priority: int = 0
    turn: float = 0.0
    """Its place among the waiters of a priority, in calls that each owner has had."""

    @property
    def place(self) -> tuple[int, float, int]:
        return -self.priority, self.turn, self.ticket


class Lane:
    """The waiters of one (provider, model), and which groups are worth trying for them.

    A group is ready (try it), asleep (try it at a time), or neither: then an event will make it ready.

    The urgent are served first, and among equals each owner in turn, however many calls one of them has waiting: an
    owner's next call comes one turn after its last one, and nobody's before the turn that is being served.
    """

    def __init__(self, lane_id: LaneId) -> None:
        self.provider, self.model, self.avoided = lane_id
        self.waiters: dict[int, Waiter] = {}
        self._queue: list[tuple[int, float, int]] = []
        self._turn = 0.0
        self._last_turns: dict[str, float] = {}
        self._ready: list[tuple[float, int, int, str]] = []
        self._asleep: list[tuple[float, int, str]] = []
        self._place: dict[str, int] = {}
        """Group name to the stamp of its only valid entry: even if ready, odd if asleep."""
        self._stamps = itertools.count(0, 2)
        self._asleep_for_tokens: set[str] = set()
        self._most_tokens_asleep = 0

    def join(self, waiter: Waiter) -> None:
        waiter.turn = max(self._turn, self._last_turns.get(waiter.owner, -1.0) + 1.0)
        self._last_turns[waiter.owner] = waiter.turn
        self.waiters[waiter.ticket] = waiter
        heapq.heappush(self._queue, waiter.place)

    def leave(self, waiter: Waiter, *, is_served: bool) -> None:
        del self.waiters[waiter.ticket]
        if is_served:
            self._turn = max(self._turn, waiter.turn)
        if not self.waiters:
            # Nobody waits: nobody is ahead of anybody.
            self._queue.clear()
            self._last_turns.clear()
            self._turn = 0.0

    @property
    def head(self) -> Waiter:
        """Who is served next; there is one."""
        while self._queue[0][2] not in self.waiters:
            heapq.heappop(self._queue)
        return self.waiters[self._queue[0][2]]

    def is_waiting_for_event(self, group_name: str) -> bool:
        return group_name not in self._place

    def make_ready(self, group: Group) -> None:
        place = self._place.get(group.id[1])
        if group.id[1] not in self.avoided and (place is None or place % 2):
            stamp = next(self._stamps)
            self._place[group.id[1]] = stamp
            heapq.heappush(self._ready, (group.quotas[self.model].rank, group.used_turn, stamp, group.id[1]))

    def forget_place(self, group_name: str) -> None:
        """The group's rank has changed: make it ready again to give it the place of its new one."""
        self._place.pop(group_name, None)

    def put_to_sleep(self, group_name: str, until: float, tokens: int | None) -> None:
        """Try the group again at `until`, or as soon as a smaller call than `tokens` is at the head."""
        stamp = next(self._stamps) + 1
        self._place[group_name] = stamp
        heapq.heappush(self._asleep, (until, stamp, group_name))
        if tokens is not None:
            self._asleep_for_tokens.add(group_name)
            self._most_tokens_asleep = max(self._most_tokens_asleep, tokens)

    def opening(self, now: float) -> float:
        """When a group is worth trying; infinity if only an event can tell."""
        self._drop_stale()
        if self._ready or self._head_may_fit_sooner():
            return now
        return self._asleep[0][0] if self._asleep else math.inf

    def wake(self, now: float, groups: Mapping[str, Group]) -> None:
        """Make ready the groups whose time has come, and those a smaller call at the head may fit."""
        self._drop_stale()
        while self._asleep and self._asleep[0][0] <= now + CLOCK_GRAIN_SECONDS:
            self._rouse(self._asleep[0][2], groups)
            self._drop_stale()
        if self._head_may_fit_sooner():
            for name in tuple(self._asleep_for_tokens):
                self._rouse(name, groups)
            self._most_tokens_asleep = self.head.tokens

    def pop_ready(self, groups: Mapping[str, Group]) -> Group | None:
        """The ready group of the smallest rank, then the least recently used."""
        while self._ready:
            rank, turn, stamp, name = heapq.heappop(self._ready)
            if self._place.get(name) != stamp:
                continue
            group = groups[name]
            del self._place[name]
            if (rank, turn) != (group.quotas[self.model].rank, group.used_turn):
                self.make_ready(group)  # Used or limited since: it goes to its place in the order.
                continue
            return group
        return None

    def _head_may_fit_sooner(self) -> bool:
        """Whether groups sleep until a larger call than the present head's would fit."""
        return bool(self._asleep_for_tokens and self.waiters) and self.head.tokens < self._most_tokens_asleep

    def _rouse(self, name: str, groups: Mapping[str, Group]) -> None:
        self._asleep_for_tokens.discard(name)
        if self._place.get(name, 0) % 2:
            self.make_ready(groups[name])

    def _drop_stale(self) -> None:
        while self._asleep and self._place.get(self._asleep[0][2]) != self._asleep[0][1]:
            heapq.heappop(self._asleep)
        while self._ready and self._place.get(self._ready[0][3]) != self._ready[0][2]:
            heapq.heappop(self._ready)
