"""Workers that call through the real pool as fast as they may, in virtual time, against limiters."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import Grant, KeyPool
from agentos.providers.evidence import Evidence, LearnedLimit, RateLimited, Succeeded, Usage
from fakes.limiters import Limiter

START = 1_780_000_020.0
Tells = Literal["retry-after", "body", "nothing"]
"""What a refusal says: how long to wait, the limit, or neither."""


@dataclass(frozen=True)
class Call:
    at: float
    """Seconds since the start."""
    is_accepted: bool
    group: str = ""


@dataclass(frozen=True)
class Traffic:
    calls: list[Call]

    @property
    def span(self) -> float:
        return max(call.at for call in self.calls if call.is_accepted)

    def refused_share(self, after: float = 0.0) -> float:
        counted = [call for call in self.calls if call.at >= after]
        return sum(not call.is_accepted for call in counted) / max(len(counted), 1)

    def accepted(self, begin: float, end: float) -> int:
        return sum(call.is_accepted and begin <= call.at < end for call in self.calls)


def keys_of(groups: int, *, keys_each: int = 2, max_concurrent: int = 3, rpm: int | None = None) -> list[KeySpec]:
    return [
        KeySpec(name=f"k{g}-{k}", provider="openai", group=f"g{g}", max_concurrent=max_concurrent, rpm=rpm)
        for g in range(groups)
        for k in range(keys_each)
    ]


def traffic(
    make_limiter: Callable[[], Limiter],
    tells: Tells,
    *,
    calls: int = 10**9,
    seconds: float = 1e9,
    workers: int = 9,
    specs: list[KeySpec] | None = None,
    pool: KeyPool | None = None,
    start: float = START,
    limiters: dict[str, Limiter] | None = None,
    call_seconds: tuple[float, float] = (0.1, 0.5),
) -> Traffic:
    """Until so many calls have succeeded or so much time has passed."""
    specs = specs or keys_of(3)
    by_name = {spec.name: spec for spec in specs}
    pool = pool or KeyPool(specs, rng=random.Random(1))
    rng = random.Random(2)
    limiters = {} if limiters is None else limiters
    for spec in specs:
        limiters.setdefault(spec.group, make_limiter())
    now, done = start, 0
    under_way: list[tuple[float, int, Grant, Evidence]] = []
    log: list[Call] = []
    for number in range(workers):
        pool.request(now, owner=f"w{number}", provider="openai", model="m")
    while done < calls and now < start + seconds:
        for grant in pool.grants(now):
            group = by_name[grant.key_name].group
            evidence = _answer(limiters[group], now, tells)
            is_accepted = isinstance(evidence, Succeeded)
            log.append(Call(now - start, is_accepted, group))
            ends = now + (rng.uniform(*call_seconds) if is_accepted else 0.05)
            heapq.heappush(under_way, (ends, grant.fence, grant, evidence))
        times = [under_way[0][0]] if under_way else []
        wake = pool.next_wake(now)
        times += [] if wake is None else [wake]
        assert times, "deadlock: calls wait and nothing will ever wake them"
        now = max(now, min(times))
        while under_way and under_way[0][0] <= now:
            _, _, grant, evidence = heapq.heappop(under_way)
            pool.release(now, grant.key_name, grant.fence, evidence)
            done += isinstance(evidence, Succeeded)
            pool.request(now, owner=grant.owner, provider="openai", model="m")
    return Traffic(log)


def _answer(limiter: Limiter, now: float, tells: Tells) -> Evidence:
    wait = limiter.wait(now)
    if wait == 0:
        return Succeeded(usage=Usage(input_tokens=5))
    told = LearnedLimit(what="requests", value=limiter.limit(now), window_seconds=60.0)
    return RateLimited(
        retry_after_seconds=wait if tells == "retry-after" else None, limits=(told,) if tells == "body" else ()
    )
