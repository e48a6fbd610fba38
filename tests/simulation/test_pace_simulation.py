"""The pace where nobody tells a limit, or it moves: little is refused, and hardly any time is lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from traffic import START, Tells, keys_of, traffic

from agentos.keys.pool import KeyPool, PastSend
from fakes.limiters import Bucket, FixedMinute, Limit, Limiter, SlidingMinute, constant, earliest_end

RPM, GROUPS, CALLS = 60, 3, 1_800
BOUND = (CALLS / (GROUPS * RPM) - 1) * 60.0
"""Of a client that fills each minute at its very first instant."""

LIMITERS: dict[str, Callable[[Limit], Limiter]] = {
    "sliding": SlidingMinute,
    "fixed": FixedMinute,
    "bucket": lambda limit: Bucket(limit, RPM),
}


def moving(before: int, after: int, at: float = 200.0) -> Limit:
    return lambda now: before if now < START + at else after


@pytest.mark.parametrize("tells", ["retry-after", "nothing", "body"])
@pytest.mark.parametrize("kind", LIMITERS)
def test_a_limit_that_is_felt_costs_few_refusals_and_hardly_any_time(kind: str, tells: Tells) -> None:
    seen = traffic(lambda: LIMITERS[kind](constant(RPM)), tells, calls=CALLS)

    assert seen.refused_share(after=60.0) < 0.05
    assert seen.span <= 1.03 * BOUND


@pytest.mark.parametrize("tells", ["retry-after", "nothing", "body"])
@pytest.mark.parametrize(("before", "after"), [(60, 30), (60, 120)], ids=["halved", "doubled"])
def test_a_limit_that_moves_is_found_within_two_of_its_periods(before: int, after: int, tells: Tells) -> None:
    seen = traffic(lambda: SlidingMinute(moving(before, after)), tells, seconds=440.0, workers=30)

    wanted = GROUPS * after
    assert seen.accepted(200 + 120, 200 + 240) >= 0.9 * 2 * wanted
    assert seen.refused_share(after=200 + 120) < 0.07


@pytest.mark.parametrize("call_seconds", [(0.02, 0.03), (0.2, 0.4), (0.9, 1.1), (1.8, 2.2)], ids=str)
@pytest.mark.parametrize("tells", ["retry-after", "body"])
def test_a_halving_costs_a_batch_no_more_than_the_provider_takes(
    tells: Tells, call_seconds: tuple[float, float]
) -> None:
    """However slow its machine: fewer calls in the first half minute leave more for the lower limit."""
    seen = traffic(
        lambda: SlidingMinute(moving(60, 30, at=30.0)),
        tells,
        calls=240,
        workers=6,
        specs=keys_of(GROUPS, max_concurrent=1),
        call_seconds=call_seconds,
    )

    before = [call for call in seen.calls if call.is_accepted and call.at < 30.0]
    by_group = [[call.at for call in before if call.group == f"g{number}"] for number in range(GROUPS)]
    assert seen.span <= 1.05 * earliest_end(by_group, 30, 240 - len(before), 30.0)
    assert seen.refused_share() < 0.06


def test_after_a_halving_nobody_waits_longer_than_the_provider_demands() -> None:
    """Spaced calls, so that a halved minute has room again after half of it."""
    seen = traffic(lambda: Bucket(moving(60, 30), 1), "nothing", seconds=400.0)

    moments = [call.at for call in seen.calls if call.is_accepted and call.at >= 190.0]
    assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < 30.0


def test_a_small_limit_that_has_become_a_large_one_is_left_behind() -> None:
    for tells in ("retry-after", "nothing", "body"):
        seen = traffic(lambda: SlidingMinute(moving(6, 600)), tells, seconds=900.0, workers=60)  # type: ignore[arg-type]
        assert seen.accepted(840, 900) >= 600, tells


def test_what_a_person_says_wins_over_what_an_earlier_run_learned() -> None:
    slow = KeyPool(keys_of(1), rng=random.Random(1))
    traffic(lambda: SlidingMinute(constant(6)), "body", seconds=100.0, pool=slow, specs=keys_of(1))
    specs = keys_of(1, rpm=600, max_concurrent=30)
    pool = KeyPool(specs, rng=random.Random(1))
    pool.import_limits(START + 100, slow.export_limits())
    seen = traffic(
        lambda: SlidingMinute(constant(600)),
        "body",
        seconds=60.0,
        pool=pool,
        specs=specs,
        workers=60,
        start=START + 100,
    )
    assert seen.accepted(0, 60) == 600
    assert seen.refused_share() == 0.0


def test_a_run_right_after_another_neither_meets_its_limit_nor_takes_it_for_one_without_bursts() -> None:
    specs, limiters = keys_of(1, rpm=60), {}
    limiters["g0"] = SlidingMinute(constant(60))
    first = KeyPool(specs, rng=random.Random(1))
    before = traffic(
        lambda: limiters["g0"], "nothing", seconds=20.0, pool=first, specs=specs, limiters=dict(limiters)
    )
    second = KeyPool(specs, rng=random.Random(1))
    second.import_limits(START + 20, first.export_limits())
    second.import_sends(START + 20, [PastSend("k0-0", "m", START + call.at) for call in before.calls])
    seen = traffic(
        lambda: limiters["g0"],
        "nothing",
        calls=120,
        pool=second,
        specs=specs,
        limiters=dict(limiters),
        start=START + 20,
    )
    assert seen.refused_share() == 0.0
    assert seen.span < 1.05 * (40.0 + 60.0), (
        "one minute's calls when the first run's have left it, one a minute later"
    )
