"""The pool's rules, one at a time, with the clock in hand."""

from __future__ import annotations

import json
import math
import random
import sys
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from agentos.keys import quota as quota_module
from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import AllInUse, AllLimited, Grant, KeyPool, NoneValid, PastSend
from agentos.keys.quota import next_day_reset
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    LearnedLimit,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
    Usage,
)

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC).timestamp()
HOUR = 3_600.0
DAY = 86_400.0


def key(name: str, group: str | None = None, provider: str = "google", **more: Any) -> KeySpec:
    return KeySpec(name=name, provider=provider, group=group or name, **more)


def pool_of(*specs: KeySpec) -> KeyPool:
    return KeyPool(specs, rng=random.Random(7))


def proven_pool_of(*specs: KeySpec) -> KeyPool:
    """Of keys that have served before: they carry as many calls at once as they may."""
    pool = pool_of(*specs)
    for spec in specs:
        pool.note(NOW, spec.name, "another model", Succeeded())
    return pool


def ask(
    pool: KeyPool, now: float, owner: str = "w", model: str = "m", tokens: int = 0, provider: str = "google"
) -> int:
    return pool.request(now, owner=owner, provider=provider, model=model, estimated_tokens=tokens)


def call(pool: KeyPool, now: float, model: str = "m", provider: str = "google", tokens: int = 0) -> Grant | None:
    """Ask for one key now; leave the queue if there is none."""
    ticket = ask(pool, now, model=model, provider=provider, tokens=tokens)
    granted = pool.grants(now)
    pool.cancel(now, ticket)
    return next((grant for grant in granted if grant.ticket == ticket), None)


def use(pool: KeyPool, now: float, evidence: Evidence, model: str = "m") -> Grant:
    """One call that ends at once with this evidence."""
    grant = call(pool, now, model)
    assert grant is not None
    assert pool.release(now, grant.key_name, grant.fence, evidence)
    return grant


def opening(pool: KeyPool, now: float, model: str = "m") -> float | None:
    """When a call that asks now would get its key."""
    ticket = ask(pool, now, model=model)
    assert pool.grants(now) == []
    wake = pool.next_wake(now)
    pool.cancel(now, ticket)
    return wake


def test_waiters_are_served_in_order() -> None:
    pool = pool_of(key("a"), key("b"))
    tickets = [ask(pool, NOW, owner=f"w{n}") for n in range(4)]
    first = pool.grants(NOW)
    assert [grant.ticket for grant in first] == tickets[:2]
    assert {grant.key_name for grant in first} == {"a", "b"}
    assert pool.grants(NOW) == []
    pool.release(NOW + 1, first[1].key_name, first[1].fence, Succeeded())
    (third,) = pool.grants(NOW + 1)
    assert third.ticket == tickets[2]
    assert third.key_name == first[1].key_name


def test_a_released_key_goes_to_the_longest_waiting_of_all_models() -> None:
    pool = pool_of(key("a"))
    held = call(pool, NOW)
    assert held is not None
    late_model = ask(pool, NOW, model="x")
    ask(pool, NOW, model="m")
    pool.release(NOW, "a", held.fence, Succeeded())
    (grant,) = pool.grants(NOW)
    assert grant.ticket == late_model


def test_a_group_whose_first_call_is_under_way_is_used_again_only_when_no_other_can_serve() -> None:
    pool = proven_pool_of(key("a", max_concurrent=4), key("spent-1", "p"), key("spent-2", "p"))
    for _ in range(2):
        ask(pool, NOW)
    first = {grant.key_name: grant for grant in pool.grants(NOW)}
    assert set(first) == {"a", "spent-1"}
    pool.release(NOW + 1, "a", first["a"].fence, Succeeded())
    for _ in range(4):
        ask(pool, NOW + 1)
    assert {grant.key_name for grant in pool.grants(NOW + 1)} == {"a"}
    ask(pool, NOW + 1)
    (without_a_choice,) = pool.grants(NOW + 1)
    assert without_a_choice.key_name == "spent-2"


def test_a_group_that_has_answered_takes_its_turn_again() -> None:
    pool = pool_of(key("a"), key("b", max_concurrent=2), key("c"))
    held = [call(pool, NOW), call(pool, NOW)]
    assert held[1] is not None
    pool.release(NOW, "b", held[1].fence, Succeeded())
    assert [use(pool, NOW, Succeeded()).key_name for _ in range(4)] == ["c", "b", "c", "b"]


def test_a_first_call_that_was_given_up_proves_nothing_and_blocks_nothing() -> None:
    pool = pool_of(key("a-1", "a"), key("a-2", "a"), key("b-1", "b"), key("b-2", "b"))
    first = call(pool, NOW)
    assert first is not None
    pool.release(NOW, first.key_name, first.fence, Abandoned())
    granted = [call(pool, NOW) for _ in range(4)]
    assert [grant.key_name for grant in granted if grant] == ["b-1", "a-2", "b-2", "a-1"]


def test_a_cancelled_ticket_is_passed_over() -> None:
    pool = pool_of(key("a"))
    first, second = ask(pool, NOW), ask(pool, NOW)
    pool.cancel(NOW, first)
    pool.cancel(NOW, 999)
    (grant,) = pool.grants(NOW)
    assert grant.ticket == second


def test_an_untried_key_gets_one_call_at_a_time_until_its_first_answer() -> None:
    pool = pool_of(key("a", "p", max_concurrent=3), key("b", "p", max_concurrent=3))
    for _ in range(8):
        ask(pool, NOW)
    first, second = pool.grants(NOW)
    assert {first.key_name, second.key_name} == {"a", "b"}
    pool.release(NOW, first.key_name, first.fence, TransportFailed())
    assert len(pool.grants(NOW)) == 1, "no answer proves nothing"
    pool.release(NOW, second.key_name, second.fence, Succeeded())
    assert {grant.key_name for grant in pool.grants(NOW)} == {second.key_name}
    assert len(pool.grants(NOW)) == 0


def test_a_key_that_served_yesterdays_run_is_no_untried_one() -> None:
    first = pool_of(key("a", max_concurrent=3))
    use(first, NOW, Succeeded())
    pool = pool_of(key("a", max_concurrent=3))
    pool.import_limits(NOW + HOUR, json.loads(json.dumps(first.export_limits())))
    for _ in range(4):
        ask(pool, NOW + HOUR)
    assert len(pool.grants(NOW + HOUR)) == 3
    pool.replace_keys(NOW + HOUR, [key("a", max_concurrent=3)], frozenset({"a"}))
    pool.drop_owner(NOW + HOUR, "w")
    assert call(pool, NOW + HOUR) is not None
    assert call(pool, NOW + HOUR) is None, "a new secret is a new key"


def test_calls_are_served_in_turn_between_owners_and_the_urgent_first() -> None:
    pool = pool_of(key("a"))
    greedy = [ask(pool, NOW, owner="greedy") for _ in range(150)]
    served = [_serve_next(pool)]
    modest = [ask(pool, NOW, owner="modest") for _ in range(2)]
    urgent = pool.request(NOW, owner="urgent", provider="google", model="m", priority=5)
    served += [_serve_next(pool) for _ in range(6)]
    assert served[:2] == [greedy[0], urgent]
    assert set(served[2:]) == {*greedy[1:4], *modest}
    assert served.index(modest[0]) <= 3
    assert [ticket for ticket in served if ticket in greedy] == greedy[:4], "in order for one owner"


def _serve_next(pool: KeyPool) -> int:
    (grant,) = pool.grants(NOW)
    pool.release(NOW, grant.key_name, grant.fence, Succeeded())
    return grant.ticket


def test_what_another_group_can_do_is_remembered_of_the_key_and_model() -> None:
    pool = pool_of(key("a"), key("b"))
    refused = use(pool, NOW, NotServed(status=404, reason="model_not_found"))
    other = pool.request(NOW, owner="w", provider="google", model="m", elsewhere_than=[refused.key_name])
    (grant,) = pool.grants(NOW)
    assert (grant.ticket, grant.key_name == refused.key_name) == (other, False)
    assert {view.state for view in pool.snapshot(NOW)} == {"available", "reserved"}, "nothing is decided yet"
    pool.release(NOW, grant.key_name, grant.fence, Succeeded())

    views = {view.name: view for view in pool.snapshot(NOW)}
    assert views[refused.key_name].state == "not_served"
    assert views[refused.key_name].reason == "m: model_not_found"
    assert [use(pool, NOW, Succeeded()).key_name for _ in range(3)] == [grant.key_name] * 3
    assert use(pool, NOW, Succeeded(), model="other").key_name == refused.key_name, "other models are served"
    pool.note(NOW, refused.key_name, "m", Succeeded())
    assert {view.state for view in pool.snapshot(NOW)} == {"available"}


def test_no_second_call_is_wasted_while_another_group_shows_what_a_refusal_meant() -> None:
    pool = pool_of(key("a"), key("b"))
    refused, beside = call(pool, NOW), call(pool, NOW)
    assert refused is not None
    assert beside is not None
    ask(pool, NOW)
    pool.release(NOW, refused.key_name, refused.fence, NotServed(status=404, reason="model_not_found"))
    assert pool.grants(NOW) == [], "before the refused call has asked again"
    elsewhere = pool.request(
        NOW, owner="w", provider="google", model="m", elsewhere_than=[refused.key_name], priority=1
    )
    assert pool.grants(NOW) == []
    assert isinstance(pool.exhaustion(NOW, "google", "m"), AllInUse)
    pool.release(NOW, beside.key_name, beside.fence, Succeeded())
    (witness,) = pool.grants(NOW)
    assert witness.ticket == elsewhere
    pool.release(NOW, witness.key_name, witness.fence, Succeeded())
    assert [grant.key_name for grant in pool.grants(NOW)] == [witness.key_name]


@pytest.mark.parametrize("end", ["cancelled", "owner gone", "abandoned", "never asks again"])
def test_a_group_in_doubt_is_asked_again_when_nobody_is_left_to_show(end: str) -> None:
    pool = pool_of(key("a"), key("b"))
    refused, beside = call(pool, NOW), call(pool, NOW)
    assert refused is not None
    assert beside is not None
    pool.release(NOW, refused.key_name, refused.fence, NotServed(status=404))
    if end == "never asks again":
        wake = opening(pool, NOW)
        assert wake is not None
        ask(pool, NOW)
        assert pool.grants(wake - 1) == []
        assert [grant.key_name for grant in pool.grants(wake)] == [refused.key_name]
        return
    other = pool.request(NOW, owner="other", provider="google", model="m", elsewhere_than=[refused.key_name])
    ask(pool, NOW)
    if end == "cancelled":
        pool.cancel(NOW, other)
    elif end == "owner gone":
        pool.drop_owner(NOW, "other")
    else:
        pool.release(NOW, beside.key_name, beside.fence, Succeeded())
        (witness,) = pool.grants(NOW)
        pool.release(NOW, witness.key_name, witness.fence, Abandoned())
        beside = pool.grants(NOW)[0]
        ask(pool, NOW)
    assert [grant.key_name for grant in pool.grants(NOW)] == [refused.key_name]


def test_what_every_group_refuses_is_the_requests_fault_and_marks_no_key() -> None:
    pool = pool_of(key("a"), key("b"), key("c"))
    names: list[str] = []
    for _ in range(3):
        pool.request(NOW, owner="w", provider="google", model="m", elsewhere_than=names)
        (grant,) = pool.grants(NOW)
        assert grant.key_name not in names
        names.append(grant.key_name)
        pool.release(NOW, grant.key_name, grant.fence, NotServed(status=403, reason="forbidden"))
    assert isinstance(pool.exhaustion(NOW, "google", "m", names), NoneValid)
    assert isinstance(pool.exhaustion(NOW, "google", "m", names[:1]), NoneValid), "the next need not ask all again"
    assert pool.exhaustion(NOW, "google", "m") is None
    assert {view.state for view in pool.snapshot(NOW)} == {"available"}


def test_max_concurrent_is_the_keys_own() -> None:
    pool = proven_pool_of(key("a", max_concurrent=2))
    for _ in range(3):
        ask(pool, NOW)
    assert len(pool.grants(NOW)) == 2


def test_a_stale_fence_frees_nothing_but_its_evidence_counts() -> None:
    pool = pool_of(key("a"))
    old = use(pool, NOW, Succeeded())
    new = call(pool, NOW)
    assert new is not None
    assert not pool.release(NOW, "a", old.fence, RateLimited(retry_after_seconds=60))
    assert not pool.release(NOW, "b", new.fence, Succeeded())
    assert not pool.release(NOW, "a", 10_000, Succeeded())
    assert pool.exhaustion(NOW, "google", "m") == AllLimited(pool.snapshot(NOW)[0].until or 0.0)
    assert pool.release(NOW, "a", new.fence, Succeeded())
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake >= NOW + 60


def test_a_dead_owners_leases_come_back_and_its_waiters_vanish() -> None:
    pool = pool_of(key("a"))
    ask(pool, NOW, owner="dead")
    (lease,) = pool.grants(NOW)
    ask(pool, NOW, owner="dead")
    alive = ask(pool, NOW, owner="alive")
    pool.drop_owner(NOW, "dead")
    pool.drop_owner(NOW, "never-seen")
    (grant,) = pool.grants(NOW)
    assert grant.ticket == alive
    assert not pool.release(NOW, "a", lease.fence, Rejected(reason="late"))
    assert pool.snapshot(NOW)[0].state == "rejected"


def test_fences_grow() -> None:
    pool = pool_of(key("a"))
    fences = [use(pool, NOW + n, Succeeded()).fence for n in range(5)]
    assert fences == sorted(set(fences))


def test_a_grant_names_what_was_asked() -> None:
    pool = pool_of(key("a", provider="openai"))
    ticket = ask(pool, NOW, owner="item-7", model="gpt", provider="openai")
    (grant,) = pool.grants(NOW)
    assert grant == Grant(ticket=ticket, owner="item-7", key_name="a", fence=1, provider="openai", model="gpt")


def test_a_limit_is_the_groups_for_that_model_alone() -> None:
    pool = pool_of(key("a", "p1"), key("b", "p1"), key("c", "p2"))
    assert use(pool, NOW, RateLimited(retry_after_seconds=60)).key_name == "a"
    assert [use(pool, NOW, Succeeded()).key_name for _ in range(3)] == ["c", "c", "c"]
    others = [call(pool, NOW, model="other") for _ in range(3)]
    assert {grant.key_name for grant in others if grant} == {"a", "b", "c"}


def test_the_providers_wait_is_kept_and_a_little_jitter_added() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, RateLimited(retry_after_seconds=47.403912))
    wake = opening(pool, NOW)
    assert wake is not None
    assert NOW + 47.403912 <= wake <= NOW + 48.5


def test_without_a_wait_the_backoff_doubles_with_each_failed_probe() -> None:
    pool = pool_of(key("a"))
    now, waits = NOW, []
    for _ in range(12):
        use(pool, now, RateLimited())
        wake = opening(pool, now)
        assert wake is not None
        waits.append(wake - now)
        now = wake
    for number, wait in enumerate(waits):
        least = min(2.0 * 2.0**number, 300.0)
        assert least <= wait <= least * 1.25 + 1e-3


def test_calls_limited_together_are_one_strike() -> None:
    pool = pool_of(key("a", max_concurrent=5))
    for _ in range(5):
        ask(pool, NOW)
    for grant in pool.grants(NOW):
        pool.release(NOW, "a", grant.fence, RateLimited())
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake <= NOW + 2.6


def test_later_evidence_never_shortens_a_deadline() -> None:
    pool = proven_pool_of(key("a", max_concurrent=4))
    for _ in range(4):
        ask(pool, NOW)
    first, second, third, fourth = pool.grants(NOW)
    pool.release(NOW, "a", first.fence, RateLimited(retry_after_seconds=100))
    pool.release(NOW, "a", second.fence, RateLimited(retry_after_seconds=1))
    pool.release(NOW, "a", third.fence, Succeeded())
    pool.release(NOW, "a", fourth.fence, Abandoned())
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake >= NOW + 100


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5.0, 1e300])
def test_a_nonsense_wait_neither_breaks_nor_blocks_for_ever(nonsense: float) -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, RateLimited(retry_after_seconds=nonsense))
    wake = opening(pool, NOW + 0.001) or NOW
    assert wake <= NOW + 10
    assert call(pool, wake + 1) is not None


def test_reopening_is_single_flight_and_success_opens() -> None:
    pool = pool_of(key("a", "p"), key("b", "p"), key("c", "p"))
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    later = NOW + 20
    for _ in range(3):
        ask(pool, later)
    (probe,) = pool.grants(later)
    assert pool.next_wake(later) is None
    assert pool.exhaustion(later, "google", "m") == AllInUse(("a", "b", "c"))
    pool.release(later + 1, probe.key_name, probe.fence, Succeeded())
    assert len(pool.grants(later + 1)) == 2


@pytest.mark.parametrize("inconclusive", [Abandoned(), TransportFailed(), RequestFailed(status=400)])
def test_an_inconclusive_probe_lets_the_next_one_go(inconclusive: Evidence) -> None:
    pool = pool_of(key("a", "p"), key("b", "p"))
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    use(pool, NOW + 20, inconclusive)
    ask(pool, NOW + 20)
    ask(pool, NOW + 20)
    assert len(pool.grants(NOW + 20)) == 1


def test_the_least_recently_limited_group_is_tried_first() -> None:
    pool = pool_of(key("a"), key("b"), key("c"))
    assert use(pool, NOW, RateLimited(retry_after_seconds=1)).key_name == "a"
    assert use(pool, NOW + 1, RateLimited(retry_after_seconds=1)).key_name == "b"
    order = [use(pool, NOW + 10, Succeeded()).key_name for _ in range(3)]
    assert order == ["c", "c", "c"]
    held = [call(pool, NOW + 11) for _ in range(3)]
    assert [grant.key_name for grant in held if grant] == ["c", "a", "b"]


def test_keys_take_turns() -> None:
    pool = pool_of(key("a", "p1"), key("b", "p1"), key("c", "p2"))
    names = [use(pool, NOW + n, Succeeded()).key_name for n in range(8)]
    assert names == ["a", "c", "b", "c", "a", "c", "b", "c"]


def test_googles_day_ends_at_midnight_in_california() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent(reason="PerDay"))
    (view,) = pool.snapshot(NOW)
    assert view.state == "out_of_quota"
    assert view.until == datetime(2026, 1, 16, 8, 0, tzinfo=UTC).timestamp()
    assert view.reason == "m: PerDay"


@pytest.mark.parametrize(
    ("local", "hours"),
    [((2026, 3, 8, 0, 0), 23), ((2026, 11, 1, 0, 0), 25), ((2026, 6, 1, 0, 0), 24)],
)
def test_the_day_is_as_long_as_daylight_saving_makes_it(local: tuple[int, ...], hours: int) -> None:
    year, month, day, hour, minute = local
    midnight = datetime(year, month, day, hour, minute, tzinfo=ZoneInfo("America/Los_Angeles")).timestamp()
    assert next_day_reset("google", midnight) - midnight == hours * HOUR
    assert next_day_reset("google", midnight - 1) == midnight
    assert next_day_reset("openai", NOW) == datetime(2026, 1, 16, tzinfo=UTC).timestamp()


def test_without_a_time_zone_database_the_reset_is_never_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    summer = datetime(2026, 7, 1, 12, 0, tzinfo=UTC).timestamp()
    real = next_day_reset("google", summer)
    monkeypatch.setattr(quota_module, "ZoneInfo", missing)
    quota_module.day_zone.cache_clear()
    try:
        assert real <= next_day_reset("google", summer) <= real + HOUR
    finally:
        quota_module.day_zone.cache_clear()


def test_a_spent_day_gets_a_few_probes_and_none_in_the_first_hour() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent())
    reset = next_day_reset("google", NOW)
    now, probes = NOW, []
    while True:
        wake = opening(pool, now)
        assert wake is not None
        now = wake
        if now >= reset:
            break
        probes.append(now)
        use(pool, now, QuotaSpent())
    assert len(probes) == 3
    assert probes[0] >= NOW + HOUR
    assert now == pytest.approx(reset)
    assert call(pool, now) is not None


def test_a_successful_daily_probe_opens() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent())
    wake = opening(pool, NOW)
    assert wake is not None
    use(pool, wake, Succeeded())
    assert call(pool, wake) is not None


def test_a_throttled_daily_probe_waits_its_delay_and_the_day_stays() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent())
    first = opening(pool, NOW)
    assert first is not None
    use(pool, first, RateLimited(retry_after_seconds=5 * HOUR))
    second = opening(pool, first)
    assert second is not None
    assert second >= first + 5 * HOUR
    assert pool.snapshot(first)[0].state == "out_of_quota"


def test_a_stated_reset_is_taken() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent(resets_in_seconds=1_800))
    assert opening(pool, NOW) == pytest.approx(NOW + 1_800)


def test_what_never_resets_waits_for_the_user() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent(never_resets=True, reason="limit 0"))
    assert opening(pool, NOW) is None
    assert call(pool, NOW + 400 * DAY) is None
    assert pool.exhaustion(NOW, "google", "m") == NoneValid(("a",))
    assert pool.exhaustion(NOW, "google", "other") is None
    assert pool.snapshot(NOW)[0].until is None
    pool.note(NOW, "a", "m", Succeeded())
    assert call(pool, NOW) is not None


def test_a_rejected_key_is_out_and_its_group_goes_on() -> None:
    pool = pool_of(key("a", "p"), key("b", "p"))
    assert use(pool, NOW, Rejected(reason="API_KEY_INVALID")).key_name == "a"
    assert [use(pool, NOW, Succeeded()).key_name for _ in range(3)] == ["b", "b", "b"]
    assert pool.snapshot(NOW)[0].reason == "API_KEY_INVALID"
    assert pool.snapshot(NOW)[1].state == "available"


def test_none_valid_names_the_keys_and_a_new_secret_lifts_it() -> None:
    specs = [key("a"), key("b")]
    pool = pool_of(*specs)
    use(pool, NOW, Rejected())
    use(pool, NOW, Rejected())
    assert pool.exhaustion(NOW, "google", "m") == NoneValid(("a", "b"))
    ticket = ask(pool, NOW)
    assert pool.grants(NOW) == []
    pool.replace_keys(NOW, specs, frozenset())
    assert pool.grants(NOW) == []
    pool.replace_keys(NOW, specs, frozenset({"b"}))
    (grant,) = pool.grants(NOW)
    assert (grant.ticket, grant.key_name) == (ticket, "b")


def test_a_rejection_of_the_old_secret_says_nothing_of_the_new_one() -> None:
    pool = pool_of(key("a"))
    grant = call(pool, NOW)
    assert grant is not None
    pool.replace_keys(NOW, [key("a")], frozenset({"a"}))
    pool.release(NOW, "a", grant.fence, Rejected())
    assert call(pool, NOW) is not None


def test_a_new_secret_lifts_what_never_resets_but_no_other_limit() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, QuotaSpent(never_resets=True), model="x")
    use(pool, NOW, RateLimited(retry_after_seconds=60), model="y")
    pool.replace_keys(NOW, [key("a")], frozenset({"a"}))
    assert call(pool, NOW, model="y") is None
    assert call(pool, NOW, model="x") is not None


def test_an_added_key_wakes_the_waiters() -> None:
    pool = pool_of(key("a"))
    held = call(pool, NOW)
    waiting = ask(pool, NOW)
    pool.replace_keys(NOW, [key("a"), key("b")])
    (grant,) = pool.grants(NOW)
    assert (grant.ticket, grant.key_name) == (waiting, "b")
    assert held is not None


def test_a_removed_keys_lease_runs_out_and_it_serves_no_more() -> None:
    pool = pool_of(key("a"), key("b"))
    held = call(pool, NOW)
    assert held is not None
    assert held.key_name == "a"
    pool.replace_keys(NOW, [key("b")])
    assert [view.name for view in pool.snapshot(NOW)] == ["b"]
    assert pool.release(NOW, "a", held.fence, Succeeded())
    assert [use(pool, NOW, Succeeded()).key_name for _ in range(3)] == ["b", "b", "b"]


def test_a_key_that_comes_back_counts_its_running_lease() -> None:
    pool = pool_of(key("a"))
    held = call(pool, NOW)
    assert held is not None
    pool.replace_keys(NOW, [])
    assert pool.exhaustion(NOW, "google", "m") == NoneValid(())
    pool.replace_keys(NOW, [key("a")])
    assert call(pool, NOW) is None
    pool.release(NOW, "a", held.fence, Succeeded())
    assert call(pool, NOW) is not None


def test_a_key_may_move_to_another_group_and_keeps_its_rejection() -> None:
    pool = pool_of(key("a", "p1"), key("b", "p2"))
    use(pool, NOW, Rejected(reason="bad"))
    pool.replace_keys(NOW, [key("b", "p3"), key("a", "p3", max_concurrent=2)])
    views = pool.snapshot(NOW)
    assert [(view.name, view.group, view.state) for view in views] == [
        ("b", "p3", "available"),
        ("a", "p3", "rejected"),
    ]
    assert use(pool, NOW, Succeeded()).key_name == "b"


def test_a_probe_whose_key_moved_away_still_reopens_its_group() -> None:
    pool = pool_of(key("a", "p1"), key("b", "p1"))
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    probe = call(pool, NOW + 20)
    assert probe is not None
    stayed = "b" if probe.key_name == "a" else "a"
    waiting = [ask(pool, NOW + 20) for _ in range(2)]
    assert pool.grants(NOW + 20) == []
    pool.replace_keys(NOW + 20, [key(probe.key_name, "p2"), key(stayed, "p1")])
    assert pool.grants(NOW + 20) == []
    pool.release(NOW + 21, probe.key_name, probe.fence, Succeeded())
    granted = pool.grants(NOW + 21)
    assert [grant.ticket for grant in granted] == waiting
    assert {grant.key_name for grant in granted} == {"a", "b"}


def test_evidence_without_a_lease_counts_and_success_lifts_everything() -> None:
    pool = pool_of(key("a"))
    pool.note(NOW, "a", "m", Rejected(reason="x"))
    assert call(pool, NOW) is None
    pool.note(NOW, "a", "m", Succeeded())
    assert call(pool, NOW) is not None


def test_overload_pauses_the_provider_and_marks_no_key() -> None:
    pool = pool_of(key("a"), key("b"), key("o", provider="openai"))
    use(pool, NOW, Overloaded())
    use(pool, NOW, Overloaded())
    assert {view.state for view in pool.snapshot(NOW)} == {"available"}
    assert call(pool, NOW, provider="openai") is not None
    wake = opening(pool, NOW, model="other")
    assert wake is not None
    assert NOW + 1.0 <= wake <= NOW + 1.3
    assert call(pool, wake) is not None


def test_one_call_that_always_fails_pauses_nobody() -> None:
    pool = pool_of(key("a"), key("b"))
    for _ in range(6):
        attempt = pool.request(NOW, owner="w", provider="google", model="m", call=1)
        (grant,) = pool.grants(NOW)
        assert grant.ticket == attempt
        pool.release(NOW, grant.key_name, grant.fence, Overloaded(retry_after_seconds=30))
        assert call(pool, NOW) is not None, "another call need not wait"
        pool.drop_owner(NOW, "w")


def test_two_bad_requests_among_many_good_ones_are_no_overload() -> None:
    pool = pool_of(key("a"))
    for number in range(40):
        use(pool, NOW + number, Overloaded() if number % 4 == 0 else Succeeded())
        assert pool.exhaustion(NOW + number, "google", "m") is None


def test_overload_doubles_until_a_later_call_succeeds() -> None:
    pool = pool_of(key("a"))
    now = NOW
    use(pool, now, Overloaded())
    for number in range(8):
        use(pool, now, Overloaded())
        wake = opening(pool, now)
        assert wake is not None
        assert wake - now >= min(2.0**number, 60.0) - 1e-3
        now = wake
    use(pool, now, Succeeded())
    use(pool, now, Overloaded(retry_after_seconds=7.0))
    wake = opening(pool, now)
    assert wake is not None
    assert now + 7.0 <= wake <= now + 8.0, "most of the latest calls say so"
    assert pool.exhaustion(now, "google", "m") == AllLimited(wake, is_overload=True)


def test_configured_requests_of_a_minute_are_never_passed() -> None:
    pool = proven_pool_of(key("a", "p", rpm=3, max_concurrent=9), key("b", "p", max_concurrent=9))
    for _ in range(8):
        ask(pool, NOW)
    assert len(pool.grants(NOW)) == 3
    wake = pool.next_wake(NOW)
    assert wake is not None
    assert NOW + 60 <= wake <= NOW + 60.5
    assert len(pool.grants(wake)) == 3


def test_tokens_of_a_minute_are_counted_as_estimated_then_as_used() -> None:
    pool = pool_of(key("a", tpm=1_000, max_concurrent=9))
    first = call(pool, NOW, tokens=600)
    assert first is not None
    assert call(pool, NOW, tokens=600) is None
    pool.release(NOW + 1, "a", first.fence, Succeeded(usage=Usage(input_tokens=100, output_tokens=50)))
    assert call(pool, NOW + 1, tokens=600) is not None


def test_a_call_that_tells_no_usage_keeps_its_estimate() -> None:
    pool = pool_of(key("a", tpm=1_000, max_concurrent=9))
    first = call(pool, NOW, tokens=600)
    assert first is not None
    pool.release(NOW + 1, "a", first.fence, Succeeded())
    assert call(pool, NOW + 1, tokens=600) is None


def test_a_smaller_call_at_the_head_is_tried_at_once() -> None:
    pool = proven_pool_of(key("a", tpm=1_000, max_concurrent=9))
    assert call(pool, NOW, tokens=900) is not None
    large = ask(pool, NOW, tokens=500)
    small = ask(pool, NOW, tokens=50)
    assert pool.grants(NOW) == []
    pool.cancel(NOW, large)
    assert pool.next_wake(NOW) == NOW
    (grant,) = pool.grants(NOW)
    assert grant.ticket == small


def test_input_and_output_tokens_are_counted_apart() -> None:
    pool = proven_pool_of(key("a", provider="anthropic", tpm=1_000, max_concurrent=9))
    grant = call(pool, NOW, provider="anthropic", tokens=400)
    assert grant is not None
    limit = LearnedLimit(what="output_tokens", value=900, window_seconds=60.0)
    pool.release(NOW, "a", grant.fence, Succeeded(usage=Usage(input_tokens=400, output_tokens=800), limits=(limit,)))
    assert call(pool, NOW, provider="anthropic", tokens=500) is not None, "answers are no input"
    assert call(pool, NOW, provider="anthropic", tokens=50) is None, "900 of 1,000 are asked, and 900 may be answered"
    assert call(pool, NOW + 61, provider="anthropic", tokens=500) is not None


def test_a_call_larger_than_the_limit_goes_when_the_window_is_empty() -> None:
    pool = proven_pool_of(key("a", tpm=1_000, max_concurrent=9))
    assert call(pool, NOW, tokens=5_000) is not None
    assert call(pool, NOW, tokens=1) is None
    assert call(pool, NOW + 61, tokens=1) is not None


def test_requests_of_a_day_end_with_the_providers_day() -> None:
    pool = pool_of(key("a", rpd=2))
    use(pool, NOW, Succeeded())
    use(pool, NOW + 1, Succeeded())
    reset = next_day_reset("google", NOW)
    assert opening(pool, NOW + 2) == pytest.approx(reset)
    assert pool.exhaustion(NOW + 2, "google", "m") == AllLimited(pytest.approx(reset))  # type: ignore[arg-type]
    assert call(pool, reset) is not None


def test_a_limit_learned_late_counts_what_was_sent_before() -> None:
    pool = pool_of(key("a"))
    learned = LearnedLimit(what="requests", value=4, window_seconds=60.0)
    for _ in range(3):
        use(pool, NOW, Succeeded())
    use(pool, NOW, Succeeded(limits=(learned,)))
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake >= NOW + 60


def test_the_latest_word_about_a_limit_stands_and_zero_is_no_limit() -> None:
    pool = pool_of(key("a", max_concurrent=9))
    use(pool, NOW, Succeeded(limits=(LearnedLimit(what="requests", value=1, window_seconds=60.0),)))
    assert call(pool, NOW) is None
    pool.note(NOW, "a", "m", Succeeded(limits=(LearnedLimit(what="requests", value=3, window_seconds=60.0),)))
    pool.note(NOW, "a", "m", Succeeded(limits=(LearnedLimit(what="requests", value=0, window_seconds=60.0),)))
    assert call(pool, NOW) is not None
    assert call(pool, NOW) is not None
    assert call(pool, NOW) is None


def test_an_allowance_that_others_used_up_is_waited_for() -> None:
    pool = pool_of(key("a"))
    used_up = LearnedLimit(what="requests", value=60, window_seconds=60.0, remaining=0, resets_in_seconds=60.0)
    use(pool, NOW, Succeeded(limits=(used_up,)))
    assert opening(pool, NOW) == pytest.approx(NOW + 1.0)


def test_a_reset_far_away_holds_no_call_longer_than_the_window_of_its_limit() -> None:
    pool = pool_of(key("a"))
    broken = LearnedLimit(what="requests", value=1, window_seconds=60.0, remaining=0, resets_in_seconds=30 * DAY)
    use(pool, NOW, Succeeded(limits=(broken,)))
    assert (opening(pool, NOW) or NOW) < NOW + 62


def test_a_provider_that_refuses_bursts_gets_evenly_spaced_calls() -> None:
    pool = proven_pool_of(key("a", rpm=60, max_concurrent=99))
    for _ in range(5):
        ask(pool, NOW)
    burst = pool.grants(NOW)
    assert len(burst) == 5
    for grant in burst:
        pool.release(NOW, "a", grant.fence, RateLimited(retry_after_seconds=5))
    use(pool, NOW + 10, Succeeded())
    assert opening(pool, NOW + 10) == pytest.approx(NOW + 11)


def test_pacing_for_a_moment_is_no_exhaustion() -> None:
    pool = pool_of(key("a", rpm=1))
    use(pool, NOW, Succeeded())
    assert isinstance(pool.exhaustion(NOW + 1, "google", "m"), AllLimited)
    assert pool.exhaustion(NOW + 58, "google", "m") is None


def test_the_three_kinds_of_exhaustion() -> None:
    pool = pool_of(key("a"), key("b"))
    assert pool.exhaustion(NOW, "google", "m") is None
    first, second = call(pool, NOW), call(pool, NOW)
    assert first is not None
    assert second is not None
    assert pool.exhaustion(NOW, "google", "m") == AllInUse(("a", "b"))
    pool.release(NOW, first.key_name, first.fence, RateLimited(retry_after_seconds=30))
    opens = pool.snapshot(NOW)[0].until
    assert pool.exhaustion(NOW, "google", "m") == AllInUse(("b",), ("a",), opens)
    pool.release(NOW, second.key_name, second.fence, RateLimited(retry_after_seconds=90))
    limited = pool.exhaustion(NOW, "google", "m")
    assert isinstance(limited, AllLimited)
    assert NOW + 30 <= limited.until <= NOW + 32
    assert pool.exhaustion(NOW, "anthropic", "m") == NoneValid(())


def test_usable_slots_count_what_can_be_carried() -> None:
    pool = pool_of(key("a", max_concurrent=3), key("b"), key("c", "p"), key("d", "p"))
    assert pool.usable_slots(NOW, "google", "m") == 6
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    assert pool.usable_slots(NOW, "google", "m") == 3
    assert pool.usable_slots(NOW + 20, "google", "m") == 4
    assert pool.usable_slots(NOW, "google", "unused") == 6
    assert pool.usable_slots(NOW, "openai", "m") == 0


def test_a_snapshot_shows_every_state_without_a_secret() -> None:
    pool = pool_of(key("a"), key("b"), key("c"), key("d"), key("e"))
    for evidence in (Rejected(reason="r"), RateLimited(retry_after_seconds=60), QuotaSpent(reason="q")):
        use(pool, NOW, evidence)
    call(pool, NOW)
    views = {view.name: view for view in pool.snapshot(NOW)}
    assert [views[name].state for name in "abcde"] == [
        "rejected",
        "rate_limited",
        "out_of_quota",
        "reserved",
        "available",
    ]
    assert views["a"].calls == 1
    assert views["a"].last_used == NOW
    assert views["e"].last_used is None


def test_a_clock_set_back_a_year_blocks_nobody() -> None:
    pool = pool_of(key("a"), key("b", rpm=1))
    use(pool, NOW, RateLimited(retry_after_seconds=30))
    use(pool, NOW, Succeeded())
    past = NOW - 365 * DAY
    wake = opening(pool, past)
    assert wake is not None
    assert past + 29 <= wake <= past + 35
    assert call(pool, wake) is not None


def test_a_clock_set_forward_and_back_blocks_nobody() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, Succeeded())
    use(pool, NOW + 365 * DAY, RateLimited(retry_after_seconds=30))
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake <= NOW + 32
    assert call(pool, wake) is not None


def test_threads_that_read_the_clock_out_of_order_do_not_move_it() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, RateLimited(retry_after_seconds=30))
    for _ in range(1_000):
        pool.next_wake(NOW)
        pool.next_wake(NOW - 0.5)
    wake = opening(pool, NOW)
    assert wake is not None
    assert wake >= NOW + 30


def restarted(pool: KeyPool, now: float, *specs: KeySpec) -> KeyPool:
    """A new pool that knows what the old one exported, by way of JSON."""
    reborn = KeyPool(specs, rng=random.Random(8))
    reborn.import_limits(now, json.loads(json.dumps(pool.export_limits())))
    return reborn


def test_limits_rejections_and_the_days_use_outlive_the_pool() -> None:
    specs = [key("a"), key("b"), key("c"), key("d", rpd=2), key("gone")]
    pool = pool_of(*specs)
    use(pool, NOW, QuotaSpent(reason="day"))
    use(pool, NOW, Rejected(reason="bad"))
    use(pool, NOW, QuotaSpent(never_resets=True))
    use(pool, NOW, Succeeded())
    later = NOW + 600
    reborn = restarted(pool, later, *specs[:4])
    assert use(reborn, later, Succeeded()).key_name == "d"
    assert call(reborn, later) is None
    states = {view.name: view.state for view in reborn.snapshot(later)}
    assert states == {"a": "out_of_quota", "b": "rejected", "c": "out_of_quota", "d": "available"}
    assert reborn.snapshot(later)[0].until == pool.snapshot(later)[0].until


def test_a_limit_that_has_ended_is_not_restored() -> None:
    pool = pool_of(key("a", "p"), key("b", "p"))
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    reborn = restarted(pool, NOW + 20, key("a", "p"), key("b", "p"))
    assert reborn.usable_slots(NOW + 20, "google", "m") == 2


def test_a_learned_limit_is_known_at_the_next_start() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, Succeeded(limits=(LearnedLimit(what="requests", value=1, window_seconds=60.0),)))
    reborn = restarted(pool, NOW + 1, key("a"))
    assert call(reborn, NOW + 1) is not None
    assert call(reborn, NOW + 1) is None


def test_an_import_only_ever_closes() -> None:
    pool = pool_of(key("a"))
    use(pool, NOW, RateLimited(retry_after_seconds=10))
    other = pool_of(key("a"))
    use(other, NOW, RateLimited(retry_after_seconds=500))
    other.import_limits(NOW, pool.export_limits())
    wake = opening(other, NOW)
    assert wake is not None
    assert wake >= NOW + 500


def test_a_pool_that_learned_nothing_exports_nothing() -> None:
    assert pool_of(key("a")).export_limits() == {}


def test_each_call_of_an_earlier_run_leaves_the_minute_at_its_own_time() -> None:
    """Also when only an answer of this run tells what the minute takes."""
    pool = pool_of(key("a"))
    pool.import_sends(NOW, [PastSend("a", "m", NOW - 50), PastSend("a", "m", NOW - 30), PastSend("a", "m", NOW - 1)])
    use(pool, NOW, Succeeded(limits=(LearnedLimit(what="requests", value=4, window_seconds=60.0),)))
    assert opening(pool, NOW) == pytest.approx(NOW + 10, abs=0.5)
    assert call(pool, NOW + 11) is not None


def test_thousands_of_calls_of_others_are_counted_without_delay() -> None:
    """By work done, not by time: twice as many cost hardly more than twice as much."""
    counted = {}
    for calls in (2_000, 4_000):
        pool = pool_of(key("a"))
        steps = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal steps
            steps += event == "call"

        sends = [PastSend("a", "m", NOW - 60 + 59 * n / calls) for n in range(1, calls + 1)]
        sys.setprofile(count)
        try:
            pool.import_sends(NOW, sends)
        finally:
            sys.setprofile(None)
        counted[calls] = steps
    assert counted[4_000] < 2.5 * counted[2_000]
