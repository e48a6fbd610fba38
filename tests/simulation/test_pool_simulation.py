"""The pool against a simulated provider, in virtual time: its promises hold whatever happens."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import AllLimited, Grant, KeyPool
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    LearnedLimit,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    Succeeded,
    TransportFailed,
    Usage,
)

START = 1_780_000_000.0
MINUTE = 60.0


@dataclass
class Provider:
    """Counts each group's calls in a sliding minute and refuses what is over the limit, as real ones do."""

    rpm: int
    tells_limit: bool = False
    rejected_keys: frozenset[str] = frozenset()
    spent_groups: frozenset[str] = frozenset()
    overload_share: float = 0.0
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: int = 0
    _sent: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def answer(self, now: float, spec: KeySpec, rng: random.Random) -> Evidence:
        self.hits[spec.name] += 1
        if spec.name in self.rejected_keys:
            return Rejected(reason="invalid")
        if spec.group in self.spent_groups:
            return QuotaSpent(reason="PerDay")
        if rng.random() < self.overload_share:
            return Overloaded()
        sent = self._sent[spec.group]
        while sent and sent[0] <= now - MINUTE:
            sent.popleft()
        limits = (LearnedLimit(what="requests", value=self.rpm, window_seconds=MINUTE),) if self.tells_limit else ()
        if len(sent) >= self.rpm:
            self.refused += 1
            return RateLimited(retry_after_seconds=sent[0] + MINUTE - now, limits=limits)
        sent.append(now)
        return Succeeded(usage=Usage(input_tokens=10), limits=limits)


@dataclass
class Simulation:
    """Workers that make calls one after another through the pool, until so many have succeeded."""

    pool: KeyPool
    specs: dict[str, KeySpec]
    provider: Provider
    rng: random.Random
    workers: int
    call_seconds: float = 1.0
    now: float = START
    sent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    succeeded: int = 0
    most_overtaken: int = 0
    """How often one owner was served while another waited for one call."""
    longest_wait: float = 0.0
    _asked: dict[int, float] = field(default_factory=dict)
    _overtaken: dict[int, Counter[str]] = field(default_factory=dict)
    _under_way: list[tuple[float, int, Grant, Evidence]] = field(default_factory=list)

    def run(self, calls: int) -> None:
        for number in range(self.workers):
            self._ask(f"w{number}")
        while self.succeeded < calls:
            self._grant()
            self._advance()
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, grant, evidence = heapq.heappop(self._under_way)
                assert self.pool.release(self.now, grant.key_name, grant.fence, evidence)
                self.succeeded += isinstance(evidence, Succeeded)
                self._ask(grant.owner)

    def _ask(self, owner: str) -> None:
        ticket = self.pool.request(self.now, owner=owner, provider="google", model="m", estimated_tokens=10)
        self._asked[ticket] = self.now
        self._overtaken[ticket] = Counter()

    def _grant(self) -> None:
        for grant in self.pool.grants(self.now):
            passed = self._overtaken.pop(grant.ticket)
            self.most_overtaken = max(self.most_overtaken, *passed.values(), 0)
            for waiting in self._overtaken.values():
                waiting[grant.owner] += 1
            self.longest_wait = max(self.longest_wait, self.now - self._asked.pop(grant.ticket))
            spec = self.specs[grant.key_name]
            self.sent[spec.group].append(self.now)
            evidence = self.provider.answer(self.now, spec, self.rng)
            ends = self.now + self.rng.uniform(0.2, 1.8) * self.call_seconds
            heapq.heappush(self._under_way, (ends, grant.fence, grant, evidence))

    def _advance(self) -> None:
        times = [self._under_way[0][0]] if self._under_way else []
        wake = self.pool.next_wake(self.now)
        if wake is not None:
            times.append(wake)
        assert times, "deadlock: calls wait and nothing will ever wake them"
        self.now = max(self.now, min(times))


def simulation_of(
    groups: int, keys_each: int, provider: Provider, *, workers: int, rpm: int | None = None, max_concurrent: int = 1
) -> Simulation:
    specs = [
        KeySpec(name=f"k{g}-{k}", provider="google", group=f"g{g}", rpm=rpm, max_concurrent=max_concurrent)
        for g in range(groups)
        for k in range(keys_each)
    ]
    pool = KeyPool(specs, rng=random.Random(1))
    return Simulation(pool, {spec.name: spec for spec in specs}, provider, random.Random(2), workers)


def most_in_a_minute(times: list[float]) -> int:
    window: deque[float] = deque()
    most = 0
    for time in times:
        window.append(time)
        while window[0] <= time - MINUTE:
            window.popleft()
        most = max(most, len(window))
    return most


@pytest.mark.parametrize(
    ("groups", "calls"), [(100, 20_000), pytest.param(500, 100_000, marks=pytest.mark.slow)], ids=["200", "1000"]
)
def test_many_keys_carry_many_calls(groups: int, calls: int) -> None:
    simulation = simulation_of(
        groups, 2, Provider(rpm=60, tells_limit=True, overload_share=0.0), workers=groups * 9 // 5
    )
    simulation.run(calls)
    assert simulation.most_overtaken <= 2
    assert simulation.provider.refused <= groups  # At most one surprise a group, before its limit is known.
    assert all(most_in_a_minute(times) <= 60 for times in simulation.sent.values())
    counts = [len(times) for times in simulation.sent.values()]
    assert min(counts) > 0.8 * max(counts)


def test_configured_limits_mean_no_refusal_and_no_lost_time() -> None:
    simulation = simulation_of(3, 2, Provider(rpm=60), workers=6, rpm=60, max_concurrent=3)
    simulation.call_seconds = 0.2
    simulation.run(1_800)
    assert simulation.provider.refused == 0
    # The quota's own bound: 600 calls a group, the first 60 at once, then 60 a minute.
    assert simulation.now - START <= 1.05 * 9 * MINUTE


def test_a_limit_nobody_tells_costs_refusals_but_hardly_any_time() -> None:
    simulation = simulation_of(3, 2, Provider(rpm=60), workers=6, max_concurrent=3)
    simulation.call_seconds = 0.2
    simulation.run(1_800)
    assert simulation.provider.refused <= 0.2 * 1_800
    assert simulation.now - START <= 1.1 * 9 * MINUTE


def test_a_limit_the_refusal_tells_costs_under_one_refusal_in_a_hundred_calls() -> None:
    simulation = simulation_of(3, 2, Provider(rpm=60, tells_limit=True), workers=6, max_concurrent=3)
    simulation.call_seconds = 0.2
    simulation.run(1_800)
    assert simulation.provider.refused <= 18
    assert simulation.now - START <= 1.05 * 9 * MINUTE


def test_bad_keys_are_hit_once_and_a_spent_groups_twin_never() -> None:
    provider = Provider(rpm=600, rejected_keys=frozenset({"k0-0"}), spent_groups=frozenset({"g1"}))
    simulation = simulation_of(4, 2, provider, workers=3)
    simulation.run(2_000)
    assert provider.hits["k0-0"] == 1
    assert (provider.hits["k1-0"], provider.hits["k1-1"]) == (1, 0)
    assert provider.hits["k0-1"] > 100


def test_nobody_starves_while_the_provider_stumbles() -> None:
    simulation = simulation_of(5, 1, Provider(rpm=30, tells_limit=True, overload_share=0.05), workers=40)
    simulation.run(1_500)
    assert simulation.most_overtaken <= 2
    # 40 waiters share 150 calls a minute; pauses for overload are short.
    assert simulation.longest_wait < 5 * MINUTE


def test_the_next_run_knows_what_this_one_learned() -> None:
    provider = Provider(rpm=600, rejected_keys=frozenset({"k0-0"}), spent_groups=frozenset({"g1"}))
    first = simulation_of(3, 1, provider, workers=3)
    first.run(100)
    second = simulation_of(3, 1, Provider(600, False, provider.rejected_keys, provider.spent_groups), workers=3)
    second.now = first.now
    second.pool.import_limits(first.now, first.pool.export_limits())
    second.run(100)
    assert second.provider.hits.keys() == {"k2-0"}


@settings(max_examples=40, deadline=None)
@given(
    rpm=st.integers(1, 20),
    tpm=st.integers(100, 2_000),
    keys=st.integers(1, 4),
    calls=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 900)), min_size=1, max_size=60),
    seed=st.integers(0, 2**16),
)
def test_no_window_ever_holds_more_than_the_limit(
    rpm: int, tpm: int, keys: int, calls: list[tuple[float, int]], seed: int
) -> None:
    specs = [
        KeySpec(name=f"k{n}", provider="google", group="g", rpm=rpm, tpm=tpm, max_concurrent=50) for n in range(keys)
    ]
    pool = KeyPool(specs, rng=random.Random(seed))
    for spec in specs:
        pool.note(START, spec.name, "another model", Succeeded())
    now, sent, tokens_of = START, [], {}
    calls = [(pause, min(tokens, tpm)) for pause, tokens in calls]
    for pause, tokens in calls:
        now += pause
        tokens_of[pool.request(now, owner="w", provider="google", model="m", estimated_tokens=tokens)] = tokens
        sent += [(now, tokens_of[grant.ticket]) for grant in pool.grants(now)]
    while len(sent) < len(calls):
        wake = pool.next_wake(now)
        assert wake is not None
        now = max(now, wake)
        sent += [(now, tokens_of[grant.ticket]) for grant in pool.grants(now)]
    for at, _ in sent:
        window = [amount for time, amount in sent if at - MINUTE < time <= at]
        assert len(window) <= rpm
        assert sum(window) <= tpm
    assert [tokens for _, tokens in sent] == [tokens for _, tokens in calls]


class PoolMachine(RuleBasedStateMachine):
    """Anything in any order, with a clock that jumps: what must hold, holds after every step."""

    MODELS = ("m1", "m2")

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.specs = {
            f"k{n}": KeySpec(name=f"k{n}", provider="google", group=f"g{n // 2}", max_concurrent=1 + n % 2)
            for n in range(5)
        }
        self.pool = KeyPool(self.specs.values(), rng=random.Random(3))
        self.waiting: dict[str, list[int]] = {model: [] for model in self.MODELS}
        self.owner_of: dict[int, str] = {}
        self.held: dict[int, Grant] = {}
        self.stale: list[Grant] = []
        self.until: dict[str, float] = {}
        self.newest_fence = 0
        self.names = itertools.count()

    @rule(owner=st.sampled_from(["x", "y", "z"]), model=st.sampled_from(MODELS))
    def ask(self, owner: str, model: str) -> None:
        ticket = self.pool.request(self.now, owner=owner, provider="google", model=model)
        self.waiting[model].append(ticket)
        self.owner_of[ticket] = owner

    @rule()
    def grant(self) -> None:
        for grant in self.pool.grants(self.now):
            tickets = self.waiting[grant.model]
            own = [ticket for ticket in tickets if self.owner_of[ticket] == grant.owner]
            assert own[0] == grant.ticket, "an owner's calls are served in order"
            tickets.remove(grant.ticket)
            assert grant.fence > self.newest_fence, "fences grow"
            assert grant.key_name in self.specs
            self.newest_fence = grant.fence
            self.held[grant.fence] = grant

    @precondition(lambda self: self.held)
    @rule(
        pick=st.integers(0, 100),
        evidence=st.one_of(
            st.just(Succeeded()),
            st.just(Abandoned()),
            st.just(TransportFailed()),
            st.just(Overloaded()),
            st.just(Rejected(reason="no")),
            st.builds(RateLimited, retry_after_seconds=st.one_of(st.none(), st.floats(0, 500))),
            st.builds(QuotaSpent, resets_in_seconds=st.one_of(st.none(), st.floats(0, 9_000))),
        ),
    )
    def release(self, pick: int, evidence: Evidence) -> None:
        fence = sorted(self.held)[pick % len(self.held)]
        grant = self.held.pop(fence)
        assert self.pool.release(self.now, grant.key_name, fence, evidence)
        self.stale.append(grant)

    @precondition(lambda self: self.stale)
    @rule(pick=st.integers(0, 100))
    def release_again(self, pick: int) -> None:
        grant = self.stale[pick % len(self.stale)]
        before = self._deadlines()
        assert not self.pool.release(self.now, grant.key_name, grant.fence, RateLimited(retry_after_seconds=3))
        for name, until in self._deadlines().items():
            assert until >= before.get(name, until) - 1e-3, "later evidence never shortens a deadline"

    @rule(owner=st.sampled_from(["x", "y", "z"]))
    def die(self, owner: str) -> None:
        self.pool.drop_owner(self.now, owner)
        for tickets in self.waiting.values():
            tickets[:] = [ticket for ticket in tickets if self.owner_of[ticket] != owner]
        for fence in [fence for fence, grant in self.held.items() if grant.owner == owner]:
            self.stale.append(self.held.pop(fence))

    @rule(seconds=st.floats(0, 5_000))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.floats(0, 100_000))
    def set_the_clock_back(self, seconds: float) -> None:
        self.now -= seconds

    @rule(removed=st.integers(0, 9), changed=st.booleans())
    def reload(self, removed: int, changed: bool) -> None:
        names = sorted(self.specs)
        if removed < len(names) and len(names) > 2:
            del self.specs[names[removed]]
        else:
            name = f"new{next(self.names)}"
            self.specs[name] = KeySpec(name=name, provider="google", group=f"g{removed % 3}")
        secrets = frozenset(self.specs) if changed else frozenset()
        self.pool.replace_keys(self.now, self.specs.values(), secrets)

    @rule(pick=st.integers(0, 9), group=st.integers(0, 3))
    def move(self, pick: int, group: int) -> None:
        name = sorted(self.specs)[pick % len(self.specs)]
        self.specs[name] = replace(self.specs[name], group=f"g{group}")
        self.pool.replace_keys(self.now, self.specs.values(), frozenset())

    @invariant()
    def no_key_is_overused(self) -> None:
        for name, spec in self.specs.items():
            assert sum(grant.key_name == name for grant in self.held.values()) <= spec.max_concurrent

    @invariant()
    def a_wake_up_is_never_in_the_past(self) -> None:
        wake = self.pool.next_wake(self.now)
        assert wake is None or wake >= self.now - 1e-3

    @invariant()
    def export_and_import_keep_the_states(self) -> None:
        twin = KeyPool(self.specs.values(), rng=random.Random(4))
        twin.import_limits(self.now, self.pool.export_limits())
        for mine, theirs in zip(self.pool.snapshot(self.now), twin.snapshot(self.now), strict=True):
            if mine.state in {"rejected", "out_of_quota"}:
                assert theirs.state == mine.state

    def teardown(self) -> None:
        """Everybody who still waits is served in the end, if any key is left: no deadlock, no lost wake-up."""
        for grant in list(self.held.values()):
            self.pool.release(self.now, grant.key_name, grant.fence, Succeeded())
        self.pool.replace_keys(self.now, self.specs.values(), frozenset(self.specs))
        left = sum(len(tickets) for tickets in self.waiting.values())
        for _ in range(1_000):
            for grant in self.pool.grants(self.now):
                left -= 1
                self.pool.release(self.now, grant.key_name, grant.fence, Succeeded())
            wake = self.pool.next_wake(self.now)
            if left == 0 or wake is None:
                break
            self.now = max(self.now, wake)
        assert left == 0, self.pool.snapshot(self.now)

    def _deadlines(self) -> dict[str, float]:
        return {view.name: view.until for view in self.pool.snapshot(self.now) if view.until is not None}


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("jump", [-1e7, -10.0, 10.0, 1e7])
def test_a_clock_jump_in_the_middle_costs_nobody_his_turn(jump: float) -> None:
    simulation = simulation_of(2, 2, Provider(rpm=30, tells_limit=True), workers=8)
    simulation.run(100)
    pool, now = simulation.pool, simulation.now + jump
    ticket = pool.request(now, owner="late", provider="google", model="m")
    pool.drop_owner(now, "nobody")
    for number in range(8):
        pool.drop_owner(now, f"w{number}")
    granted: list[int] = []
    for _ in range(100):
        granted += [grant.ticket for grant in pool.grants(now)]
        if ticket in granted:
            break
        wake = pool.next_wake(now)
        assert wake is not None
        assert wake <= now + 2 * MINUTE
        now = wake
    assert ticket in granted


def test_exhaustion_tells_the_time_at_which_grants_resume() -> None:
    simulation = simulation_of(2, 1, Provider(rpm=5), workers=2)
    pool, now = simulation.pool, START
    for delay in (50.0, 20.0):
        pool.request(now, owner="w", provider="google", model="m")
        (grant,) = pool.grants(now)
        pool.release(now, grant.key_name, grant.fence, RateLimited(retry_after_seconds=delay))
    exhausted = pool.exhaustion(now, "google", "m")
    assert isinstance(exhausted, AllLimited)
    pool.request(now, owner="w", provider="google", model="m")
    assert pool.grants(exhausted.until - 0.01) == []
    assert pool.next_wake(now + 1) == pytest.approx(exhausted.until)
    assert len(pool.grants(exhausted.until)) == 1
