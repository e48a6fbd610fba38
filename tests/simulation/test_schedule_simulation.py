"""The real schedule under virtual time: thousands of items, random faults, stops and limits, and what must hold."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.engine.plan import Item, make_plan
from agentos.engine.schedule import Action, Ending, Finish, Kill, Retry, Schedule, Skip, Start, Stop


@dataclass(frozen=True)
class World:
    """What a simulated run is like. Chances are per attempt, rates per unit of virtual time."""

    items: int
    parallel: int
    retries: int = 0
    dependencies: float = 0.0
    failing: float = 0.0
    crashing: float = 0.0
    absent: float = 0.0
    exclusive: float = 0.0
    server_losses: float = 0.0
    limit_changes: float = 0.0
    stop_at: float | None = None
    kill_after: float | None = None


class Simulation:
    """Stands in for the coordinator: starts, ends, loses and stops workers, and checks every decision on the way."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.depends_on, self.order = self._plan()
        self.place = {item_id: index for index, item_id in enumerate(self.order)}
        self.absent = {i for i in self.order if self.rng.random() < world.absent}
        self.rivals = self._draw_rivals()
        self.schedule = Schedule(
            self.order,
            self.depends_on,
            limit=world.parallel,
            retries=world.retries,
            absent=self.absent,
            exclusive={i: [other for other in others if other > i] for i, others in self.rivals.items()},
        )
        self.limit = world.parallel
        self.now = 0.0
        self.agenda: list[tuple[float, int, str, str]] = []
        self.numbers = iter(range(10**9))
        self.running: dict[str, int] = {}
        self.waiting_for = {i: set(needs) for i, needs in self.depends_on.items()}
        self.dependents: dict[str, list[str]] = {i: [] for i in self.order}
        for item_id, needs in self.depends_on.items():
            for need in needs:
                self.dependents[need].append(item_id)
        self.ready: set[str] = set()
        self.ready_places: list[int] = []
        for item_id in self.order:
            if not self.waiting_for[item_id] and item_id not in self.absent:
                self._make_ready(item_id)
        self.outcomes: dict[str, str] = dict.fromkeys(self.absent, "absent")
        self.starts: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.is_stopping = False
        self.is_finished = False
        self.most_at_once = 0

    def _plan(self) -> tuple[Mapping[str, Sequence[str]], list[str]]:
        names = [f"i{n}" for n in range(self.world.items)]
        items = []
        for n, name in enumerate(names):
            needs: list[str] = []
            while n and self.rng.random() < self.world.dependencies:
                needs.append(names[self.rng.randrange(max(0, n - 50), n)])
            items.append(Item(id=name, priority=self.rng.randrange(3), depends_on=tuple(dict.fromkeys(needs))))
        self.rng.shuffle(items)
        plan = make_plan(items)
        return plan.depends_on, [item.id for item in plan.items]

    def _draw_rivals(self) -> dict[str, set[str]]:
        rivals: dict[str, set[str]] = {i: set() for i in self.order}
        for one, other in zip(self.order, self.order[1:], strict=False):
            if self.rng.random() < self.world.exclusive:
                rivals[one].add(other)
                rivals[other].add(one)
        return rivals

    def run(self) -> Simulation:
        for kind, rate in (("lose", self.world.server_losses), ("limit", self.world.limit_changes)):
            if rate:
                self._later(self.rng.expovariate(rate), kind)
        if self.world.stop_at is not None:
            self._later(self.world.stop_at, "stop")
        self._obey(self.schedule.begin())
        while not self.is_finished:
            assert self.agenda, "nothing runs, nothing will, and the run is not over"
            when, _, kind, item_id = heapq.heappop(self.agenda)
            self.now = when
            self._happen(kind, item_id)
        return self

    def _later(self, seconds: float, kind: str, item_id: str = "") -> None:
        heapq.heappush(self.agenda, (self.now + seconds, next(self.numbers), kind, item_id))

    def _happen(self, kind: str, item_id: str) -> None:
        match kind:
            case "end":
                name, _, attempt = item_id.rpartition("#")
                if self.running.get(name) == int(attempt):
                    self._end(name, self._draw_ending(name))
            case "stopped":
                if item_id in self.running:
                    self._end(item_id, Ending.INTERRUPTED)
            case "lose":
                for name in list(self.running):
                    self._end(name, Ending.LOST)
                self._later(self.rng.expovariate(self.world.server_losses), "lose")
            case "limit":
                self.limit = self.rng.randrange(0, self.world.parallel + 1)
                self._obey(self.schedule.limit_changed(self.limit))
                # A pause always ends, as it does when keys open again.
                self._later(0.5 if self.limit == 0 else self.rng.expovariate(self.world.limit_changes), "limit")
            case "stop":
                self.is_stopping = True
                self._obey(self.schedule.stop())
                if self.world.kill_after is not None and not self.is_finished:
                    self._later(self.world.kill_after, "kill")
            case "kill":
                self._obey(self.schedule.stop(at_once=True))

    def _draw_ending(self, item_id: str) -> Ending:
        chance = self.rng.random()
        if chance < self.world.crashing:
            return Ending.CRASHED
        return Ending.NOT_DONE if chance < self.world.crashing + self.world.failing else Ending.DONE

    def _end(self, item_id: str, ending: Ending) -> None:
        del self.running[item_id]
        if ending is Ending.DONE:
            self._settle(item_id, "done")
            for dependent in self.dependents[item_id]:
                self.waiting_for[dependent].discard(item_id)
                if not self.waiting_for[dependent] and dependent not in self.outcomes:
                    self._make_ready(dependent)
        elif ending is Ending.NOT_DONE:
            self._settle(item_id, "failed")
        elif ending is Ending.CRASHED:
            self.crashes[item_id] += 1
            if self.crashes[item_id] > self.world.retries or self.is_stopping:
                self._settle(item_id, "failed")
            else:
                self._make_ready(item_id)
        elif ending is Ending.LOST and not self.is_stopping:
            self.losses[item_id] += 1
            self._make_ready(item_id)
        self._obey(self.schedule.ended(item_id, ending))

    def _make_ready(self, item_id: str) -> None:
        self.ready.add(item_id)
        heapq.heappush(self.ready_places, self.place[item_id])

    def _settle(self, item_id: str, outcome: str) -> None:
        assert item_id not in self.outcomes, f"{item_id} ended twice"
        self.outcomes[item_id] = outcome

    def _obey(self, actions: Sequence[Action]) -> None:
        assert not self.is_finished or not actions, "a decision after the end"
        for action in actions:
            match action:
                case Start(item_id=item_id, attempt=attempt):
                    self._start(item_id, attempt)
                case Stop(item_id=item_id):
                    assert item_id in self.running
                    self._later(self.rng.uniform(0.0, 2.0), "stopped", item_id)
                case Kill(item_id=item_id):
                    self._later(0.0, "stopped", item_id)
                case Skip(item_id=item_id, dependency=dependency):
                    assert dependency in self.depends_on[item_id]
                    assert self.outcomes[dependency] in ("failed", "skipped", "absent")
                    self._settle(item_id, "skipped")
                case Retry(item_id=item_id):
                    assert item_id in self.ready
                case Finish():
                    assert not self.running
                    self.is_finished = True
        self._check_that_no_place_is_wasted()

    def _start(self, item_id: str, attempt: int) -> None:
        assert not self.is_stopping, "started after the stop"
        assert item_id not in self.running
        assert item_id not in self.outcomes
        assert all(self.outcomes.get(need) == "done" for need in self.depends_on[item_id])
        assert self.rivals[item_id].isdisjoint(self.running), "started beside a rival"
        assert self.place[item_id] == self._next_place(), "started out of order"
        assert attempt == self.crashes[item_id] + 1
        self.ready.remove(item_id)
        self.starts[item_id] += 1
        self.running[item_id] = self.starts[item_id]
        assert len(self.running) <= self.limit
        self.most_at_once = max(self.most_at_once, len(self.running))
        self._later(self.rng.expovariate(1.0), "end", f"{item_id}#{self.starts[item_id]}")

    def _next_place(self) -> int:
        if not self.world.exclusive:
            return heapq.heappop(self.ready_places)
        return min(self.place[i] for i in self.ready if self.rivals[i].isdisjoint(self.running))

    def _check_that_no_place_is_wasted(self) -> None:
        """No waves, no starvation: whoever could run does, unless the places are taken or the run is stopping."""
        assert self.schedule.running == self.running.keys()
        self._check_who_is_next()
        is_full = self.is_stopping or len(self.running) >= self.limit
        assert is_full or all(self.rivals[i] & self.running.keys() for i in self.ready)

    def _check_who_is_next(self) -> None:
        """Asked at any time, it names those that only wait for a place, in order, and changes nothing."""
        if self.is_stopping or len(self.order) > 500:
            return
        free = [i for i in self.ready if not self.crashes[i] and self.rivals[i].isdisjoint(self.running)]
        fresh = sorted(free, key=self.place.__getitem__)
        assert self.schedule.next_up(5) == fresh[:5]

    def check_the_end(self) -> None:
        left = self.schedule.left
        assert sorted([*self.outcomes, *left]) == sorted(self.order), "each item has one end"
        assert list(left) == sorted(left, key=self.place.__getitem__)
        assert not left or self.is_stopping
        for item_id in self.order:
            is_doomed = any(self.outcomes.get(d) in ("failed", "skipped", "absent") for d in self.depends_on[item_id])
            if item_id not in self.absent:
                assert (self.outcomes.get(item_id) == "skipped") == is_doomed
            assert self.starts[item_id] <= 1 + self.world.retries + self.losses[item_id]


MIXED = World(
    items=400,
    parallel=10,
    retries=2,
    dependencies=0.3,
    failing=0.05,
    crashing=0.1,
    absent=0.02,
    exclusive=0.3,
    server_losses=0.2,
    limit_changes=0.5,
)


@pytest.mark.parametrize("seed", range(25))
def test_under_faults_losses_and_changing_limits_every_item_has_one_end(seed: int) -> None:
    simulation = Simulation(MIXED, seed).run()
    simulation.check_the_end()
    assert simulation.schedule.left == ()


@pytest.mark.parametrize("seed", range(25))
def test_a_stop_at_any_time_starts_nothing_more_and_accounts_for_every_item(seed: int) -> None:
    rng = random.Random(seed)
    world = World(
        items=300,
        parallel=rng.randint(1, 10),
        retries=rng.randint(0, 2),
        dependencies=rng.choice([0.0, 0.4]),
        failing=0.1,
        crashing=0.1,
        server_losses=rng.choice([0.0, 0.3]),
        stop_at=rng.choice([0.0, rng.uniform(0.0, 40.0)]),
        kill_after=rng.choice([None, 0.1]),
    )
    Simulation(world, seed).run().check_the_end()


@pytest.mark.parametrize("parallel", [1, 3, 10])
def test_thousands_of_items_keep_every_place_busy_to_the_end(parallel: int) -> None:
    simulation = Simulation(World(items=5_000, parallel=parallel), seed=parallel).run()
    simulation.check_the_end()
    assert Counter(simulation.outcomes.values()) == {"done": 5_000}
    assert simulation.most_at_once == parallel
    # Items take one unit of time on average: no time is lost between them.
    assert simulation.now == pytest.approx(5_000 / parallel, rel=0.1)


def test_thousands_of_items_with_everything_going_wrong_at_once() -> None:
    world = World(
        items=4_000,
        parallel=10,
        retries=1,
        dependencies=0.2,
        failing=0.02,
        crashing=0.05,
        server_losses=0.05,
        limit_changes=0.2,
    )
    simulation = Simulation(world, seed=2).run()
    simulation.check_the_end()
    assert {"done", "failed", "skipped"} == set(simulation.outcomes.values())


def test_an_item_that_keeps_crashing_starves_nobody() -> None:
    schedule = Schedule(["bad", *(f"good{n}" for n in range(50))], limit=1, retries=3)
    actions, ended = schedule.begin(), []
    while Finish() not in actions:
        [start] = [action for action in actions if isinstance(action, Start)]
        is_bad = start.item_id == "bad"
        ended.append(start.item_id)
        actions = schedule.ended(start.item_id, Ending.CRASHED if is_bad else Ending.DONE)
    assert ended.count("bad") == 4
    assert len(ended) == 54


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    world=st.builds(
        World,
        items=st.integers(0, 40),
        parallel=st.integers(1, 10),
        retries=st.integers(0, 3),
        dependencies=st.sampled_from([0.0, 0.3, 0.7]),
        failing=st.sampled_from([0.0, 0.2, 0.9]),
        crashing=st.sampled_from([0.0, 0.1]),
        absent=st.sampled_from([0.0, 0.2, 1.0]),
        exclusive=st.sampled_from([0.0, 0.5, 1.0]),
        server_losses=st.sampled_from([0.0, 1.0]),
        limit_changes=st.sampled_from([0.0, 2.0]),
        stop_at=st.none() | st.floats(0.0, 10.0),
        kill_after=st.none() | st.floats(0.0, 1.0),
    ),
)
def test_any_world_ends_with_every_item_accounted_for(seed: int, world: World) -> None:
    Simulation(world, seed).run().check_the_end()


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = Simulation(MIXED, 7).run(), Simulation(MIXED, 7).run()
    assert (first.outcomes, first.now, first.starts) == (second.outcomes, second.now, second.starts)
