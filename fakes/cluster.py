"""A run on a cluster in virtual time: the real schedule and key pool; nodes, items and providers are made up.

Nodes die and come back, providers change their limits, and every decision is counted and timed.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from agentos.engine.schedule import Action, Ending, Finish, Retry, Schedule, Start
from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import Grant, KeyPool
from agentos.providers.evidence import Evidence, RateLimited, Succeeded, Usage
from fakes.limiters import MINUTE, SlidingMinute

_T = TypeVar("_T")
BEGAN = 1_780_000_020.0
_PROVIDER, _MODEL = "openai", "m"
_CALLS_AT_ONCE = 4
"""Of one key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a simulated cluster is like."""

    items: int
    nodes: int = 500
    places: int = 8
    """Items that a node carries at once."""
    keys: int = 1000
    groups: int = 200
    rpm: int = 60
    """Of a group, at first."""
    calls: int = 4
    """Of an item; each is one node of its graph."""
    work_seconds: float = 2.0
    """Before each call."""
    call_seconds: float = 5.0
    node_lives_seconds: float = 7200.0
    """On average, before it dies."""
    node_away_seconds: float = 60.0
    quota_changes: int = 40
    """How many groups find another limit on the way: half of it, or twice as much."""
    seed: int = 1


@dataclass(slots=True)
class Meter:
    """How often something was decided, and how long that took."""

    count: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0

    def timed(self, decide: Callable[[], _T]) -> _T:
        began = time.thread_time()
        try:
            return decide()
        finally:
            took = time.thread_time() - began
            self.count += 1
            self.seconds += took
            self.longest_seconds = max(self.longest_seconds, took)

    @property
    def mean_microseconds(self) -> float:
        return 1e6 * self.seconds / max(self.count, 1)


@dataclass(slots=True)
class _Item:
    calls_done: int = 0
    """Kept: what its checkpoint holds."""
    node: int | None = None
    attempt: int = 0
    ticket: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of a simulated run."""

    makespan_seconds: float = 0.0
    bound_seconds: float = 0.0
    """No order of things could have been faster."""
    done: set[str] = field(default_factory=set)
    accepted: int = 0
    refused: int = 0
    repeated: int = 0
    """Calls that were answered and made again, because their node died before the answer was kept."""
    deaths: int = 0
    schedule: Meter = field(default_factory=Meter)
    pool: Meter = field(default_factory=Meter)

    @property
    def over_bound(self) -> float:
        return self.makespan_seconds / self.bound_seconds

    @property
    def refused_share(self) -> float:
        return self.refused / max(self.accepted + self.refused, 1)


class ClusterRun:
    """Stands in for the coordinator, the nodes and the providers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(world.seed)
        self._specs = [
            KeySpec(name=f"k{n}", provider=_PROVIDER, group=f"g{n % world.groups}", max_concurrent=_CALLS_AT_ONCE)
            for n in range(world.keys)
        ]
        self._group_of = {spec.name: spec.group for spec in self._specs}
        self._limits = {f"g{n}": [(0.0, world.rpm)] for n in range(world.groups)}
        self._limiters = {name: SlidingMinute(self._limit_of(name)) for name in self._limits}
        self._pool = KeyPool(self._specs, rng=random.Random(world.seed))
        self._items = {f"i{n}": _Item() for n in range(world.items)}
        self._alive = set(range(world.nodes))
        self._free = {n: world.places for n in self._alive}
        self._roomy = [(-world.places, n) for n in self._alive]
        self._on_node: dict[int, set[str]] = {n: set() for n in self._alive}
        self._schedule = Schedule(list(self._items), limit=world.nodes * world.places)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._now = 0.0
        self._waits: dict[int, tuple[str, int]] = {}
        self._wake_at = float("inf")
        self._is_over = False
        self.outcome = Outcome()

    def run(self) -> Outcome:
        heapq.heapify(self._roomy)
        self._plan_changes()
        for node in self._alive:
            self._later(self._rng.expovariate(1 / self._world.node_lives_seconds), partial(self._die, node))
        self._obey(self.outcome.schedule.timed(self._schedule.begin))
        while not self._is_over:
            if not self._agenda:
                raise RuntimeError("nothing happens any more, and the run is not over")
            self._now, _, happen = heapq.heappop(self._agenda)
            happen()
            self._serve()
        self.outcome.makespan_seconds = self._now
        self.outcome.bound_seconds = self._bound()
        return self.outcome

    # Time.

    def _later(self, seconds: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self._now + seconds, next(self._numbers), happen))

    def _clock(self) -> float:
        return BEGAN + self._now

    # Limits that the providers hold to, and change.

    def _limit_of(self, group: str) -> Callable[[float], int]:
        return lambda now: next(rpm for at, rpm in reversed(self._limits[group]) if at <= now - BEGAN)

    def _plan_changes(self) -> None:
        world = self._world
        expected = MINUTE * world.items * world.calls / (world.groups * world.rpm)
        for group in self._rng.sample(sorted(self._limits), min(world.quota_changes, world.groups)):
            rpm = self._rng.choice((world.rpm // 2, world.rpm * 2))
            self._limits[group].append((self._rng.uniform(0.1, 0.6) * expected, rpm))

    # Items on nodes.

    def _obey(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Start(item_id=item_id):
                    self._start(item_id)
                case Retry():
                    pass
                case Finish():
                    self._is_over = True
                case _:
                    raise AssertionError(f"{action} was not asked for")

    def _start(self, item_id: str) -> None:
        item, node = self._items[item_id], self._node_with_room()
        item.node = node
        item.attempt += 1
        self._on_node[node].add(item_id)
        self._begin_step(item_id)

    def _node_with_room(self) -> int:
        """The emptiest. Entries that are out of date are put right as they come up."""
        while True:
            free, node = heapq.heappop(self._roomy)
            if node in self._alive and self._free[node] == -free and self._free[node]:
                self._free[node] -= 1
                heapq.heappush(self._roomy, (-self._free[node], node))
                return node

    def _begin_step(self, item_id: str) -> None:
        attempt = self._items[item_id].attempt
        seconds = self._world.work_seconds * self._rng.uniform(0.5, 1.5)
        self._later(seconds, lambda: self._ask(item_id, attempt))

    def _ask(self, item_id: str, attempt: int) -> None:
        item = self._items[item_id]
        if item.attempt != attempt or item.node is None:
            return  # Its node has died.
        item.ticket = self.outcome.pool.timed(
            lambda: self._pool.request(
                self._clock(), owner=item_id, provider=_PROVIDER, model=_MODEL, call=item.calls_done + 1
            )
        )
        self._waits[item.ticket] = (item_id, attempt)

    # Calls.

    def _serve(self) -> None:
        for grant in self.outcome.pool.timed(lambda: self._pool.grants(self._clock())) if self._waits else ():
            self._send(grant)
        if self._waits:
            self._plan_wake()

    def _plan_wake(self) -> None:
        due = self._pool.next_wake(self._clock())
        if due is not None and not self._now < self._wake_at <= due - BEGAN:
            self._wake_at = due - BEGAN
            self._later(max(self._wake_at - self._now, 0.001), lambda: None)

    def _send(self, grant: Grant) -> None:
        item_id, attempt = self._waits.pop(grant.ticket)
        group = self._group_of[grant.key_name]
        wait = self._limiters[group].wait(self._clock())
        evidence: Evidence = RateLimited(retry_after_seconds=wait) if wait else Succeeded(usage=Usage(input_tokens=5))
        seconds = 0.05 if wait else self._world.call_seconds * self._rng.uniform(0.5, 1.5)
        self._later(seconds, lambda: self._answered(item_id, attempt, grant, evidence))

    def _answered(self, item_id: str, attempt: int, grant: Grant, evidence: Evidence) -> None:
        is_accepted = isinstance(evidence, Succeeded)
        self.outcome.accepted += is_accepted
        self.outcome.refused += not is_accepted
        item = self._items[item_id]
        if item.attempt != attempt or item.node is None:
            self.outcome.repeated += is_accepted
            return  # The pool took the key back when its node died.
        self.outcome.pool.timed(lambda: self._pool.release(self._clock(), grant.key_name, grant.fence, evidence))
        if not is_accepted:
            self._ask(item_id, attempt)
            return
        item.calls_done += 1
        if item.calls_done < self._world.calls:
            self._begin_step(item_id)
            return
        self._leave(item_id)
        self.outcome.done.add(item_id)
        self._obey(self.outcome.schedule.timed(lambda: self._schedule.ended(item_id, Ending.DONE)))

    def _leave(self, item_id: str) -> None:
        item = self._items[item_id]
        node = item.node
        assert node is not None
        item.node = None
        self._on_node[node].discard(item_id)
        self._free[node] += 1
        if node in self._alive:
            heapq.heappush(self._roomy, (-self._free[node], node))

    # Death.

    def _die(self, node: int) -> None:
        self.outcome.deaths += 1
        self._alive.discard(node)
        self._limit_changed()
        for item_id in sorted(self._on_node[node]):
            item = self._items[item_id]
            self._waits.pop(item.ticket, None)
            self._leave(item_id)
            self.outcome.pool.timed(partial(self._pool.drop_owner, self._clock(), item_id))
            self._obey(self.outcome.schedule.timed(partial(self._schedule.ended, item_id, Ending.LOST)))
        self._later(self._world.node_away_seconds, lambda: self._come_back(node))

    def _come_back(self, node: int) -> None:
        self._alive.add(node)
        heapq.heappush(self._roomy, (-self._free[node], node))
        self._limit_changed()
        self._later(self._rng.expovariate(1 / self._world.node_lives_seconds), lambda: self._die(node))

    def _limit_changed(self) -> None:
        limit = len(self._alive) * self._world.places
        self._obey(self.outcome.schedule.timed(lambda: self._schedule.limit_changed(limit)))

    # What nobody could beat.

    def _bound(self) -> float:
        """The slowest of: what providers accept, what nodes and keys carry at once, and what one item takes."""
        world = self._world
        calls = world.items * world.calls
        step_seconds = world.work_seconds + world.call_seconds
        return max(
            world.calls * step_seconds,
            calls * step_seconds / (world.nodes * world.places),
            calls * world.call_seconds / (world.keys * _CALLS_AT_ONCE),
            self._bound_of_limits(calls),
        )

    def _bound_of_limits(self, calls: int) -> float:
        """When providers can have accepted so many: a first minute's worth at once, then at their rates."""
        left = float(calls - sum(changes[0][1] for changes in self._limits.values()))
        moments = sorted({at for changes in self._limits.values() for at, _ in changes})
        for begin, end in zip(moments, [*moments[1:], float("inf")], strict=True):
            rate = sum(_rpm_at(changes, begin) for changes in self._limits.values()) / MINUTE
            if left <= rate * (end - begin):
                return begin + max(left, 0.0) / rate
            left -= rate * (end - begin)
        raise AssertionError("the last rate lasts for ever")


def _rpm_at(changes: Sequence[tuple[float, int]], at: float) -> int:
    return next(rpm for begin, rpm in reversed(changes) if begin <= at)
