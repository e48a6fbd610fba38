"""The broker of keys in virtual time: who is served, what is said of waiting, how money is counted."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos.errors import BudgetReachedError, NoUsableKeyError, QuotaGoneError, UsageError
from agentos.events import BudgetNoticed, Event, KeyCoolingDown, PoolExhausted, PoolResumed, Warned
from agentos.keys.broker import Delivery, KeyBroker
from agentos.keys.budget import Budget
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.day_budget import DayBudget
from agentos.keys.key_spec import KeySpec
from agentos.keys.leases import Ask, Lease, LeaseAsk, LeaseCancel, LeaseGranted, LeaseRefused, LeaseReturn
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import LONGEST_SLEEP_SECONDS
from agentos.keys.refusals import Patience
from agentos.keys.waiting import BRIEF_WAIT_SECONDS
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    QuotaSpent,
    RateLimited,
    Rejected,
    Succeeded,
    TransportFailed,
    Usage,
)

START = 1_800_000_000.0
SALT = b"salt"


@dataclass(frozen=True)
class Grant:
    owner: str
    lease: Lease


class Keys:
    """A broker with a clock that is moved by hand, and what it has said."""

    def __init__(
        self,
        *names: str,
        budget: float | None = None,
        day_budget: DayBudget | None = None,
        memory: LimitMemory | None = None,
        patience: Patience | None = None,
        edition: int = 1,
    ) -> None:
        self.now = START
        self.said: list[Event] = []
        self.budget = None if budget is None else Budget(budget)
        self.broker = KeyBroker(
            keys(*names, edition=edition),
            emit=self.said.append,
            memory=memory,
            salt=SALT,
            budget=self.budget,
            day_budget=day_budget,
            patience=patience,
            clock=lambda: self.now,
            rng=random.Random(1),
        )

    def ask(self, owner: str, ticket: int = 1, cost: float | None = 0.01) -> list[Grant]:
        ask = Ask(provider="google", model="m", estimated_cost_usd=cost, estimated_tokens=1)
        self.broker.take(owner, LeaseAsk(ticket=ticket, ask=ask))
        return self.granted()

    def refusals(
        self, owner: str, provider: str = "google", cost: float | None = None
    ) -> list[tuple[str, LeaseRefused]]:
        """Ask, and see who is refused."""
        ask = Ask(provider=provider, model="m", estimated_cost_usd=cost)
        self.broker.take(owner, LeaseAsk(ticket=99, ask=ask))
        return self.refused()

    def granted(self) -> list[Grant]:
        answers = self._answers()
        return [Grant(owner, answer.lease) for owner, answer in answers if isinstance(answer, LeaseGranted)]

    def refused(self) -> list[tuple[str, LeaseRefused]]:
        return [(owner, answer) for owner, answer in self._answers() if isinstance(answer, LeaseRefused)]

    def _answers(self) -> list[Delivery]:
        answers = self.broker.answers()
        self.broker.announce()
        return answers

    def give_back(self, grant: Grant, evidence: Evidence) -> None:
        self.broker.take(grant.owner, LeaseReturn(fence=grant.lease.fence, evidence=evidence))

    def heard(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.said if isinstance(event, kind)]


def keys(*names: str, edition: int = 1) -> CredentialSet:
    """`name` or `name/group`."""
    made = []
    for text in names:
        name, _, group = text.partition("/")
        spec = KeySpec(name=name, provider="google", group=group or name)
        made.append(Credential(spec, f"secret-{name}-{edition}"))
    return CredentialSet(tuple(made))


def give_back(pool: Keys, grant: Grant, cost: float = 0.01) -> None:
    pool.give_back(grant, Succeeded(usage=Usage(cost_usd=cost)))


def test_a_lease_carries_its_keys_secret_and_serves_the_next_after_it() -> None:
    pool = Keys("a")
    (first,) = pool.ask("one")
    assert pool.ask("two") == []
    assert pool.broker.waiting_owners == {"two"}
    give_back(pool, first)
    (second,) = pool.granted()

    assert (first.lease.key_name, first.lease.secret) == ("a", "secret-a-1")
    assert second.owner == "two"
    assert second.lease.fence > first.lease.fence


def test_an_owner_that_is_gone_leaves_its_key_to_the_next() -> None:
    pool = Keys("a")
    pool.ask("one")
    pool.ask("two")
    pool.ask("gone")
    pool.broker.drop_owner("gone")
    pool.broker.drop_owner("one")

    assert [grant.owner for grant in pool.granted()] == ["two"]
    assert pool.broker.waiting_owners == set()


def test_a_cancelled_ask_is_not_served() -> None:
    pool = Keys("a")
    (first,) = pool.ask("one")
    pool.ask("two", ticket=7)
    pool.broker.take("two", LeaseCancel(ticket=7))
    give_back(pool, first)

    assert pool.granted() == []


def test_busy_keys_are_told_of_once_and_brief_business_not_again() -> None:
    pool = Keys("a", "b")
    (one,), (two,) = pool.ask("one"), pool.ask("two")
    pool.ask("three")
    pool.ask("four")
    assert pool.heard(PoolExhausted) == [PoolExhausted(kind="in_use", names=("a", "b"), slots=2)]
    pool.now += 1.5
    give_back(pool, one)
    give_back(pool, two)
    third, _fourth = pool.granted()
    assert pool.heard(PoolResumed) == [PoolResumed(waited_seconds=1.5)]

    pool.ask("five")
    assert len(pool.heard(PoolExhausted)) == 1
    pool.now += BRIEF_WAIT_SECONDS
    assert pool.broker.seconds_to_wake() == 0.0
    pool.granted()
    assert len(pool.heard(PoolExhausted)) == 2
    give_back(pool, third)
    pool.granted()
    assert len(pool.heard(PoolResumed)) == 2


def test_a_limit_is_told_of_though_business_was() -> None:
    pool = Keys("a")
    (one,) = pool.ask("one")
    pool.ask("two")
    pool.give_back(one, RateLimited(retry_after_seconds=30.0))
    assert pool.granted() == []
    kinds = [event.kind for event in pool.said if isinstance(event, PoolExhausted)]
    cooling = pool.heard(KeyCoolingDown)

    assert kinds == ["in_use", "limited"]
    assert isinstance(cooling[0], KeyCoolingDown)
    assert (cooling[0].key_number, cooling[0].reason) == (1, "rate-limited")
    assert pool.heard(PoolResumed) == []
    wait = pool.broker.seconds_to_wake()
    assert wait is not None
    assert 30.0 <= wait <= 32.0
    pool.now += wait
    assert [grant.owner for grant in pool.granted()] == ["two"]
    assert len(pool.heard(PoolResumed)) == 1


def test_no_valid_key_refuses_every_waiter_and_is_said_once() -> None:
    pool = Keys("a", "b")
    for owner in ("one", "two"):
        (grant,) = pool.ask(owner)
        pool.give_back(grant, Rejected(reason="API_KEY_INVALID"))
    refused = [refusal for owner in ("one", "two", "three") for refusal in pool.refusals(owner)]

    assert [owner for owner, _ in refused] == ["one", "two", "three"]
    assert all(isinstance(refusal.error(), NoUsableKeyError) and "a, b" in refusal.message for _, refusal in refused)
    assert pool.heard(PoolExhausted) == [PoolExhausted(kind="none_valid", names=("a", "b"))]


def test_a_provider_without_keys_is_refused_with_the_command_that_helps() -> None:
    ((_, refusal),) = Keys("a").refusals("one", provider="openai")

    assert "`agentos keys add openai --provider openai`" in refusal.message


def test_keys_are_not_called_available_when_those_who_waited_are_refused() -> None:
    pool = Keys("a")
    (grant,) = pool.ask("one")
    pool.ask("two")
    pool.give_back(grant, Rejected())
    ((owner, _),) = pool.refused()

    assert owner == "two"
    assert [event.kind for event in pool.said if isinstance(event, PoolExhausted)] == ["in_use", "none_valid"]
    assert pool.heard(PoolResumed) == []


def test_keys_are_not_called_available_when_those_who_waited_are_gone() -> None:
    pool = Keys("a")
    (grant,) = pool.ask("one")
    pool.ask("two")
    pool.broker.drop_owner("two")
    assert pool.granted() == []
    assert pool.heard(PoolResumed) == []

    pool.now += 3.0
    pool.ask("three")
    give_back(pool, grant)
    assert [grant.owner for grant in pool.granted()] == ["three"]
    assert pool.heard(PoolResumed) == [PoolResumed(waited_seconds=3.0)]
    assert len(pool.heard(PoolExhausted)) == 1


def test_limited_keys_are_told_apart_from_busy_ones() -> None:
    pool = Keys("a", "b", "c")
    (limited,), *_ = pool.ask("one"), pool.ask("two"), pool.ask("three")
    pool.give_back(limited, RateLimited(retry_after_seconds=30.0))
    pool.ask("four")

    assert pool.heard(PoolExhausted) == [PoolExhausted(kind="in_use", names=("b", "c"), limited=("a",), slots=2)]


def test_a_limit_beyond_the_patience_is_refused_with_the_time() -> None:
    pool = Keys("a", patience=Patience(60, "--max-wait 60 s"))
    (grant,) = pool.ask("one")
    pool.give_back(grant, QuotaSpent(resets_in_seconds=7200.0))
    ((_, refusal),) = pool.refusals("one")

    assert isinstance(refusal.error(), QuotaGoneError)
    assert "the next key opens in 7200 s, longer than --max-wait 60 s" in refusal.message


@pytest.mark.parametrize("owner", ["other", "nobody"])
def test_a_return_of_what_one_does_not_hold_changes_nothing(owner: str) -> None:
    pool = Keys("a", budget=1.0)
    (grant,) = pool.ask("one")
    pool.ask("other")
    pool.give_back(Grant(owner, grant.lease), Rejected())
    pool.broker.take(owner, LeaseReturn(fence=12345, evidence=Succeeded(usage=Usage(cost_usd=5.0))))

    assert pool.granted() == []
    assert [view.state for view in pool.broker.snapshot()] == ["reserved"]
    assert pool.budget is not None
    assert pool.budget.spent_usd == 0.0


def test_a_new_secret_lifts_a_rejection_and_a_new_key_wakes_waiters() -> None:
    pool = Keys("a")
    (grant,) = pool.ask("one")
    pool.give_back(grant, Rejected())
    pool.broker.reload(keys("a", edition=2))
    (again,) = pool.ask("one", 2)
    pool.ask("two")
    pool.broker.reload(keys("a", "b", edition=2))

    assert again.lease.secret == "secret-a-2"
    assert [delivery.lease.key_name for delivery in pool.granted()] == ["b"]


def test_who_waits_is_named_where_a_key_of_another_model_is_open() -> None:
    pool = Keys("a")
    (other,) = pool.ask("works")
    for owner in ("waits", "too"):
        ask = Ask(provider="google", model="other", estimated_tokens=1)
        pool.broker.take(owner, LeaseAsk(ticket=1, ask=ask))
    give_back(pool, other)
    (grant,) = pool.granted()
    pool.give_back(grant, RateLimited(retry_after_seconds=60.0))
    pool.granted()
    (told,) = [event for event in pool.said if isinstance(event, PoolExhausted) and event.kind == "limited"]
    assert told.waiting == ("too",)
    pool.now += 120
    (again,) = pool.granted()
    assert again.owner == "too"
    assert [event.waiting for event in pool.said if isinstance(event, PoolResumed)][-1:] == [("too",)]


def test_money_is_reserved_before_and_settled_after_each_call() -> None:
    pool = Keys("a", "b", "c", budget=0.05)
    (one,), (two,) = pool.ask("one", cost=0.02), pool.ask("two", cost=0.02)
    assert pool.ask("three", cost=0.02) == []  # It may still fit when the others cost less.
    give_back(pool, one, cost=0.005)
    (three,) = pool.granted()
    give_back(pool, two, cost=0.02)
    give_back(pool, three, cost=0.02)
    assert pool.heard(BudgetNoticed) == [BudgetNoticed(spent_usd=0.045, budget_usd=0.05)]
    ((_, refusal),) = pool.refusals("four", cost=0.02)

    assert isinstance(refusal.error(), BudgetReachedError)
    assert "$0.045 spent" in refusal.message
    assert pool.broker.shortfall == BudgetNoticed(spent_usd=0.045, budget_usd=0.05, needed_usd=0.065)
    assert "higher --budget" in refusal.message


def test_a_small_call_does_not_pass_a_large_one_that_waits_for_money() -> None:
    pool = Keys("a", "b", "c", budget=0.05)
    pool.ask("one", cost=0.03)
    pool.ask("large", cost=0.04)

    assert pool.ask("small", cost=0.001) == []
    assert pool.broker.waiting_owners == {"large", "small"}


def test_a_killed_callers_money_counts_as_spent_and_blocks_nobody_for_ever() -> None:
    pool = Keys("a", "b", budget=0.05)
    pool.ask("killed", cost=0.03)
    assert pool.refusals("next", cost=0.03) == []
    pool.broker.drop_owner("killed")
    ((_, refusal),) = pool.refused()

    assert "$0.03 spent" in refusal.message


def test_calls_that_came_to_nothing_cost_nothing() -> None:
    pool = Keys("a", budget=0.05)
    for number in range(10):
        (grant,) = pool.ask("one", ticket=number, cost=0.04)
        pool.give_back(grant, Abandoned())

    assert pool.budget is not None
    assert pool.budget.spent_usd == 0.0


def test_a_call_whose_end_nobody_knows_counts_as_what_was_reserved_for_it() -> None:
    pool = Keys("a", budget=0.05)
    for evidence in (TransportFailed(reason="no answer in 300 s", may_be_charged=True), TransportFailed()):
        (grant,) = pool.ask("x", cost=0.02)
        pool.broker.take("x", LeaseReturn(fence=grant.lease.fence, evidence=evidence))
    assert pool.budget is not None
    assert pool.budget.spent_usd == 0.02


def test_a_call_without_a_price_is_refused_where_there_is_a_budget() -> None:
    ((_, refusal),) = Keys("a", budget=1.0).refusals("one", cost=None)

    assert isinstance(refusal.error(), UsageError)
    assert "has no price" in refusal.message
    assert Keys("a").ask("one", cost=None)


def test_limits_rejections_and_calls_are_known_to_the_next_run(tmp_path: Path) -> None:
    memory = LimitMemory(tmp_path / "limits.json")
    pool = Keys("a", "b", "c", memory=memory)
    grants = {grant.lease.key_name: grant for owner in "xyz" for grant in pool.ask(owner)}
    pool.give_back(grants["a"], QuotaSpent())
    pool.give_back(grants["b"], Rejected(reason="bad"))
    pool.give_back(grants["c"], Succeeded())
    pool.broker.save()
    pool.broker.save()
    later = Keys("a", "b", "c", memory=memory)
    states = {view.name: view.state for view in later.broker.snapshot()}
    renewed = Keys("a", "b", "c", memory=memory, edition=2)

    assert states == {"a": "out_of_quota", "b": "rejected", "c": "available"}
    assert {view.state for view in renewed.broker.snapshot()} == {"available"}
    marks = keys("a", "b", "c").fingerprints(SALT)
    assert {name: record["calls"] for name, record in memory.load(marks).items()} == {"a": 1, "b": 1, "c": 1}


def test_a_memory_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    pool = Keys("a", memory=LimitMemory(blocked / "limits.json"))
    (grant,) = pool.ask("one")
    pool.give_back(grant, RateLimited(retry_after_seconds=1.0))
    pool.broker.save()

    assert len([event for event in pool.heard(Warned) if "cannot be saved" in str(event)]) == 1


def test_the_scarcest_model_decides_how_much_the_keys_carry() -> None:
    pool = Keys("a", "b")
    assert (pool.broker.has_business, pool.broker.usable_slots()) == (False, 0)
    (grant,) = pool.ask("one")
    assert (pool.broker.has_business, pool.broker.usable_slots()) == (True, 2)
    pool.give_back(grant, RateLimited(retry_after_seconds=60.0))

    assert pool.broker.usable_slots() == 1


def test_a_clock_that_is_set_back_during_a_wait_makes_it_no_negative_one() -> None:
    pool = Keys("a")
    (grant,) = pool.ask("one")
    pool.ask("two")
    pool.now += BRIEF_WAIT_SECONDS
    pool.granted()
    pool.now -= 3_600.0
    pool.granted()
    assert pool.broker.seconds_to_wake() is None or pool.broker.seconds_to_wake() <= LONGEST_SLEEP_SECONDS
    pool.now += 5.0
    pool.give_back(grant, Succeeded())
    assert [each.owner for each in pool.granted()] == ["two"]
    (resumed,) = pool.heard(PoolResumed)
    assert isinstance(resumed, PoolResumed)
    assert resumed.waited_seconds == 5.0
