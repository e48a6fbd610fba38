"""What a process knows of its home's pool, by the words of the owner."""

from __future__ import annotations

import time
from pathlib import Path

from agentos.keys.home_pool import HomePool
from agentos.keys.home_socket import HomeSocket
from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import AllLimited, Grant
from agentos.keys.shared_pool import SharedPool
from agentos.providers.evidence import RateLimited

DEADLINE_SECONDS = 120.0


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_clock_that_is_set_back_makes_no_short_limit_a_long_one(tmp_path: Path) -> None:
    clock = Clock()
    home = HomeSocket(tmp_path, lambda survivors: HomePool(clock=clock, survivors=survivors))
    home.open()
    pool = SharedPool([KeySpec(name="k", provider="openai", group="k")], {"k": "mark"}, home)
    try:
        pool.request(clock(), owner="item", provider="openai", model="m")
        grant = first_grant(pool, clock)
        pool.release(clock(), grant.key_name, grant.fence, RateLimited(retry_after_seconds=50.0))
        pool.request(clock(), owner="item", provider="openai", model="m")
        wait_until_limited(pool, clock)

        clock.now -= 3_600.0
        why = pool.exhaustion(clock(), "openai", "m")
        assert not isinstance(why, AllLimited) or why.until - clock() < 100.0
    finally:
        pool.close()


def first_grant(pool: SharedPool, clock: Clock) -> Grant:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (grants := pool.grants(clock())):
        assert time.monotonic() < deadline, "no key came"
        time.sleep(0.01)
    return grants[0]


def wait_until_limited(pool: SharedPool, clock: Clock) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not isinstance(pool.exhaustion(clock(), "openai", "m"), AllLimited):
        assert time.monotonic() < deadline, "nobody told of the limit"
        time.sleep(0.01)
