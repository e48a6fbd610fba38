"""The owner of a home's pool: clients share keys, and a hand-over leases nothing twice. With a virtual clock."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentos.keys.home_messages import GiveBack, Given, HeldKey, Hello, LaneNews, SharedKey, Want
from agentos.keys.home_pool import SETTLE_SECONDS, HomePool
from agentos.keys.pool import LONGEST_SLEEP_SECONDS
from agentos.keys.send_log import SendLog
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, Succeeded


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def key(mark: str, *, cap: int = 1, group: str = "", rpm: int | None = None) -> SharedKey:
    return SharedKey(
        mark=mark, provider="openai", group=group or mark, max_concurrent=cap, rpm=rpm, tpm=None, rpd=None
    )


@dataclass
class Client:
    """What one process of the home knows."""

    name: str
    keys: tuple[SharedKey, ...]
    tickets: int = 0
    waiting: dict[int, Want] = field(default_factory=dict)
    held: dict[int, HeldKey] = field(default_factory=dict)

    def join(self, pool: HomePool) -> None:
        pool.take(self.name, Hello(client=self.name, keys=self.keys, held=tuple(self.held.values())))
        for want in self.waiting.values():
            pool.take(self.name, want)

    def want(self, pool: HomePool | None, owner: str = "item") -> None:
        self.tickets += 1
        want = Want(
            ticket=self.tickets,
            owner=owner,
            provider="openai",
            model="m",
            tokens=1,
            priority=0,
            call=0,
            refused_by=(),
        )
        self.waiting[want.ticket] = want
        if pool is not None:
            pool.take(self.name, want)

    def hear(self, given: Given) -> None:
        want = self.waiting.pop(given.ticket)
        self.held[given.fence] = HeldKey(mark=given.mark, model="m", fence=given.fence, owner=want.owner)

    def give_back(self, pool: HomePool | None, evidence: Evidence | None = None) -> None:
        fence, held = self.held.popitem()
        if pool is not None:
            pool.take(self.name, GiveBack(fence=fence, mark=held.mark, evidence=evidence or Succeeded()))


def deliver(pool: HomePool, *clients: Client) -> int:
    """Hand out what the pool gives; says how many keys that were."""
    by_name = {client.name: client for client in clients}
    given = [(name, message) for name, message in pool.turn() if isinstance(message, Given)]
    for name, message in given:
        by_name[name].hear(message)
    return len(given)


def test_clients_share_a_keys_cap_in_turn_and_only_keys_they_have() -> None:
    pool = HomePool(clock=Clock(), rng=random.Random(1))
    first, second = Client("a", (key("k"),)), Client("b", (key("k"), key("other")))
    for client in (first, second):
        client.join(pool)
    first.want(pool)
    first.want(pool)
    assert deliver(pool, first, second) == 1
    second.want(pool)
    assert deliver(pool, first, second) == 1  # Its own one: the first has never heard of that.
    assert [held.mark for held in second.held.values()] == ["other"]
    first.give_back(pool)
    assert deliver(pool, first, second) == 1
    assert len(first.held) == 1


def test_clients_with_different_keys_of_a_group_are_served_with_their_own() -> None:
    pool = HomePool(clock=Clock(), rng=random.Random(1))
    first = Client("a", (key("k1", group="team"), key("k2", group="team")))
    second = Client("b", (key("k3", group="team"),))
    first.join(pool)
    for _ in range(3):
        first.want(pool)
    assert deliver(pool, first) == 2
    # Its call waits for a key of the group, when somebody comes who has another one of it.
    second.join(pool)
    assert deliver(pool, first, second) == 0
    assert deliver(pool, first, second) == 0
    second.want(pool)
    assert deliver(pool, first, second) == 1
    assert [held.mark for held in second.held.values()] == ["k3"]
    first.give_back(pool)
    assert deliver(pool, first, second) == 1
    assert {held.mark for held in first.held.values()} == {"k1", "k2"}


def test_a_client_is_told_anew_whether_keys_are_busy_when_it_gives_one_back() -> None:
    pool = HomePool(clock=Clock(), rng=random.Random(1))
    client = Client("a", (key("k"),))
    client.join(pool)
    for _ in range(2):
        client.want(pool)
        told = [message for _, message in pool.turn()]
        client.hear(next(message for message in told if isinstance(message, Given)))
        assert [message.why for message in told if isinstance(message, LaneNews)] == ["in_use"]
        client.give_back(pool)
        assert [message.why for _, message in pool.turn() if isinstance(message, LaneNews)] == ["free"]


def test_what_a_client_held_serves_the_others_when_it_is_gone() -> None:
    pool = HomePool(clock=Clock(), rng=random.Random(1))
    first, second = Client("a", (key("k"),)), Client("b", (key("k"),))
    for client in (first, second):
        client.join(pool)
    first.want(pool)
    deliver(pool, first, second)
    second.want(pool)
    assert deliver(pool, first, second) == 0
    pool.leave("a")
    assert deliver(pool, second) == 1


def test_no_lease_is_lost_when_the_disk_is_full() -> None:
    clock = Clock()
    pool = HomePool(clock=clock, rng=random.Random(1), sends=SendLog(Path("/dev/full")))
    one = Client("one", (key("a"), key("b"), key("c")))
    one.join(pool)
    for _ in range(3):
        one.want(pool)

    assert deliver(pool, one) == 3


def test_a_limit_that_one_client_meets_holds_for_the_others() -> None:
    clock = Clock()
    pool = HomePool(clock=clock, rng=random.Random(1))
    first, second = Client("a", (key("k"),)), Client("b", (key("k"),))
    for client in (first, second):
        client.join(pool)
    first.want(pool)
    deliver(pool, first, second)
    first.give_back(pool, RateLimited(retry_after_seconds=30.0))
    second.want(pool)
    assert deliver(pool, first, second) == 0
    clock.now += 33.0
    assert deliver(pool, first, second) == 1


def test_a_new_owner_waits_for_those_who_outlived_the_last_but_not_for_ever() -> None:
    clock = Clock()
    survivor, newcomer = Client("a", (key("k"),)), Client("b", (key("k"),))
    survivor.held[5] = HeldKey(mark="k", model="m", fence=5, owner="item")
    pool = HomePool(clock=clock, rng=random.Random(1), survivors=["a"])
    newcomer.join(pool)
    newcomer.want(pool)
    assert deliver(pool, newcomer) == 0  # The survivor may hold the key, and does.
    survivor.join(pool)
    assert deliver(pool, newcomer, survivor) == 0
    survivor.give_back(pool)
    assert deliver(pool, newcomer, survivor) == 1
    silent = HomePool(clock=clock, rng=random.Random(1), survivors=["gone"])
    newcomer.held.clear()
    newcomer.join(silent)
    newcomer.want(silent)
    assert deliver(silent, newcomer) == 0
    clock.now += SETTLE_SECONDS + 0.01
    assert deliver(silent, newcomer) == 1


def test_a_long_limit_is_looked_after_every_minute_for_it_also_ends_while_a_machine_is_suspended() -> None:
    clock = Clock()
    pool = HomePool(clock=clock, rng=random.Random(1))
    client = Client("a", (key("k"),))
    client.join(pool)
    client.want(pool)
    assert deliver(pool, client) == 1
    client.give_back(pool, QuotaSpent())
    client.want(pool)
    assert deliver(pool, client) == 0
    assert pool.seconds_to_wake() == LONGEST_SLEEP_SECONDS

    clock.now += 26 * 3_600.0  # A timer of the time left would have stood still with the machine.
    assert deliver(pool, client) == 1


def test_a_clock_that_is_set_back_while_a_new_owner_settles_keeps_nobody_waiting() -> None:
    clock, newcomer = Clock(), Client("b", (key("k"),))
    pool = HomePool(clock=clock, rng=random.Random(1), survivors=["silent"])
    newcomer.join(pool)
    newcomer.want(pool)
    assert deliver(pool, newcomer) == 0
    clock.now -= 3_600.0
    assert deliver(pool, newcomer) == 1


def test_fences_grow_from_owner_to_owner_though_the_clock_is_set_back_between() -> None:
    clock, client = Clock(), Client("a", (key("k"), key("l")))
    pool = HomePool(clock=clock, rng=random.Random(1))
    client.join(pool)
    client.want(pool)
    assert deliver(pool, client) == 1
    (earlier,) = client.held

    clock.now -= 3_600.0
    successor = HomePool(clock=clock, rng=random.Random(1), survivors=["a"])
    client.join(successor)
    client.want(successor)
    assert deliver(successor, client) == 1
    assert max(client.held) > earlier


@pytest.mark.parametrize("seed", range(30))
def test_no_key_is_leased_beyond_its_cap_whoever_dies_when(seed: int) -> None:
    """Owners and clients die at any moment; clients come back to the next owner with what they hold."""
    rng, clock = random.Random(seed), Clock()
    caps = {"k": 1, "l": 2}
    keys = tuple(key(mark, cap=cap) for mark, cap in caps.items())
    clients = {f"c{number}": Client(f"c{number}", keys) for number in range(4)}
    pool = HomePool(clock=clock, rng=rng)
    connected: set[str] = set()
    served = 0
    for _ in range(400):
        clock.now += rng.random() * 0.2
        name = rng.choice(list(clients))
        client = clients[name]
        here = pool if name in connected else None
        match rng.randrange(8):
            case 0 | 1 | 2:
                client.want(here)
            case 3 | 4 if client.held:
                client.give_back(here)
            case 5 if rng.random() < 0.2:
                pool = HomePool(clock=clock, rng=rng, survivors=clients)
                connected.clear()
            case 6 if rng.random() < 0.2:
                clients[name] = Client(f"{name}'", keys) if not name.endswith("'") else Client(name, keys)
                pool.leave(name)
                connected.discard(name)
                clients = {each.name: each for each in clients.values()}
        # Those who outlive an owner are back well before it stops waiting for them.
        for each in clients.values():
            if each.name not in connected and (rng.random() < 0.5 or pool.is_settling):
                each.join(pool)
                connected.add(each.name)
        served += deliver(pool, *clients.values())
        for mark, cap in caps.items():
            in_use = sum(held.mark == mark for each in clients.values() for held in each.held.values())
            assert in_use <= cap
    assert served > 20
