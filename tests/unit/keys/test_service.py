"""The key service in virtual time: who is served, what is said of waiting, how money is counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agentos.errors import BudgetReachedError, NoUsableKeyError
from agentos.events import BudgetNoticed, Event, KeyCoolingDown, PoolExhausted, PoolResumed, Warned
from agentos.keys.budget import Budget
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.groups import KeySpec
from agentos.keys.memory import LimitMemory
from agentos.keys.service import BRIEF_WAIT_SECONDS, Ask, Granted, KeyService, Refused
from agentos.providers.evidence import Abandoned, QuotaSpent, RateLimited, Rejected, Succeeded, Usage

START = 1_800_000_000.0


class Desk:
    """A service with a clock that is moved by hand, and what it has said."""

    def __init__(
        self, *names: str, budget: float | None = None, memory: LimitMemory | None = None, edition: int = 1
    ) -> None:
        self.now = START
        self.said: list[Event] = []
        self.service = KeyService(
            keys(*names, edition=edition),
            emit=self.said.append,
            memory=memory,
            salt=b"salt",
            budget=None if budget is None else Budget(budget),
            clock=lambda: self.now,
            rng=random.Random(1),
        )

    def ask(self, owner: str, ticket: int = 1, cost: float | None = 0.01) -> list[Granted]:
        self.service.ask(
            Ask(owner=owner, ticket=ticket, provider="google", model="m", estimated_cost_usd=cost, estimated_tokens=1)
        )
        return self.granted()

    def granted(self) -> list[Granted]:
        return [delivery for delivery in self.service.pump() if isinstance(delivery, Granted)]

    def refused(self) -> list[Refused]:
        return [delivery for delivery in self.service.pump() if isinstance(delivery, Refused)]

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


def give_back(desk: Desk, grant: Granted, cost: float = 0.01) -> None:
    lease = grant.lease
    desk.service.give_back(lease.key_name, lease.fence, Succeeded(usage=Usage(cost_usd=cost)))


def test_a_lease_carries_its_keys_secret_and_serves_the_next_after_it() -> None:
    desk = Desk("a")
    (first,) = desk.ask("one")
    assert desk.ask("two") == []
    assert desk.service.waiting_owners == {"two"}
    give_back(desk, first)
    (second,) = desk.granted()

    assert (first.lease.key_name, first.lease.secret) == ("a", "secret-a-1")
    assert second.owner == "two"
    assert second.lease.fence > first.lease.fence


def test_an_owner_that_is_gone_leaves_its_key_to_the_next() -> None:
    desk = Desk("a")
    desk.ask("one")
    desk.ask("two")
    desk.ask("gone")
    desk.service.drop_owner("gone")
    desk.service.drop_owner("one")

    assert [grant.owner for grant in desk.granted()] == ["two"]
    assert desk.service.waiting_owners == set()


def test_a_cancelled_ask_is_not_served() -> None:
    desk = Desk("a")
    (first,) = desk.ask("one")
    desk.ask("two", ticket=7)
    desk.service.cancel("two", 7)
    give_back(desk, first)

    assert desk.granted() == []


def test_busy_keys_are_told_of_once_and_brief_business_not_again() -> None:
    desk = Desk("a", "b")
    (one,), (two,) = desk.ask("one"), desk.ask("two")
    desk.ask("three")
    desk.ask("four")
    assert desk.heard(PoolExhausted) == [PoolExhausted(kind="in_use", names=("a", "b"))]
    desk.now += 1.5
    give_back(desk, one)
    give_back(desk, two)
    third, _fourth = desk.granted()
    assert desk.heard(PoolResumed) == [PoolResumed(waited_seconds=1.5)]

    desk.ask("five")
    assert len(desk.heard(PoolExhausted)) == 1
    desk.now += BRIEF_WAIT_SECONDS
    assert desk.service.seconds_to_wake() == 0.0
    desk.granted()
    assert len(desk.heard(PoolExhausted)) == 2
    give_back(desk, third)
    desk.granted()
    assert len(desk.heard(PoolResumed)) == 2


def test_a_limit_is_told_of_though_business_was() -> None:
    desk = Desk("a")
    (one,) = desk.ask("one")
    desk.ask("two")
    desk.service.give_back("a", one.lease.fence, RateLimited(retry_after_seconds=30.0))
    assert desk.granted() == []
    kinds = [event.kind for event in desk.said if isinstance(event, PoolExhausted)]
    cooling = desk.heard(KeyCoolingDown)

    assert kinds == ["in_use", "limited"]
    assert isinstance(cooling[0], KeyCoolingDown)
    assert (cooling[0].key_number, cooling[0].reason) == (1, "rate-limited")
    assert desk.heard(PoolResumed) == []
    wait = desk.service.seconds_to_wake()
    assert wait is not None
    assert 30.0 <= wait <= 32.0
    assert desk.service.longest_wait_seconds() == pytest.approx(wait)
    desk.now += wait
    assert [grant.owner for grant in desk.granted()] == ["two"]
    assert len(desk.heard(PoolResumed)) == 1


def test_no_valid_key_refuses_every_waiter_and_is_said_once() -> None:
    desk = Desk("a", "b")
    for owner in ("one", "two"):
        (grant,) = desk.ask(owner)
        desk.service.give_back(grant.lease.key_name, grant.lease.fence, Rejected(reason="API_KEY_INVALID"))
    for owner in ("one", "two"):
        desk.service.ask(Ask(owner=owner, ticket=2, provider="google", model="m"))
    refused = desk.refused()
    desk.service.ask(Ask(owner="three", ticket=1, provider="google", model="m"))
    refused += desk.refused()

    assert [refusal.owner for refusal in refused] == ["one", "two", "three"]
    assert all(isinstance(refusal.error, NoUsableKeyError) and "a, b" in str(refusal.error) for refusal in refused)
    assert desk.heard(PoolExhausted) == [PoolExhausted(kind="none_valid", names=("a", "b"))]


def test_a_provider_without_keys_is_refused_with_the_command_that_helps() -> None:
    desk = Desk("a")
    desk.service.ask(Ask(owner="one", ticket=1, provider="openai", model="m"))
    (refusal,) = desk.refused()

    assert "agentos keys add NAME --provider openai" in str(refusal.error)


def test_a_new_secret_lifts_a_rejection_and_a_new_key_wakes_waiters() -> None:
    desk = Desk("a")
    (grant,) = desk.ask("one")
    desk.service.give_back("a", grant.lease.fence, Rejected())
    desk.service.reload(keys("a", edition=2))
    (again,) = desk.ask("one", 2)
    desk.ask("two")
    desk.service.reload(keys("a", "b", edition=2))

    assert again.lease.secret == "secret-a-2"
    assert [delivery.lease.key_name for delivery in desk.granted()] == ["b"]


def test_money_is_reserved_before_and_settled_after_each_call() -> None:
    desk = Desk("a", "b", "c", budget=0.05)
    (one,), (two,) = desk.ask("one", cost=0.02), desk.ask("two", cost=0.02)
    assert desk.ask("three", cost=0.02) == []  # It may still fit when the others cost less.
    give_back(desk, one, cost=0.005)
    (three,) = desk.granted()
    give_back(desk, two, cost=0.02)
    give_back(desk, three, cost=0.02)
    assert desk.heard(BudgetNoticed) == [BudgetNoticed(spent_usd=0.045, budget_usd=0.05)]
    desk.service.ask(Ask(owner="four", ticket=1, provider="google", model="m", estimated_cost_usd=0.02))
    (refusal,) = desk.refused()

    assert isinstance(refusal.error, BudgetReachedError)
    assert "$0.0450 spent" in str(refusal.error)
    assert "higher --budget" in str(refusal.error)


def test_a_small_call_does_not_pass_a_large_one_that_waits_for_money() -> None:
    desk = Desk("a", "b", "c", budget=0.05)
    desk.ask("one", cost=0.03)
    desk.ask("large", cost=0.04)

    assert desk.ask("small", cost=0.001) == []
    assert desk.service.waiting_owners == {"large", "small"}


def test_a_killed_callers_money_counts_as_spent_and_blocks_nobody_for_ever() -> None:
    desk = Desk("a", "b", budget=0.05)
    desk.ask("killed", cost=0.03)
    desk.service.ask(Ask(owner="next", ticket=1, provider="google", model="m", estimated_cost_usd=0.03))
    assert desk.refused() == []
    desk.service.drop_owner("killed")
    (refusal,) = desk.refused()

    assert "$0.0300 spent" in str(refusal.error)


def test_calls_that_came_to_nothing_cost_nothing() -> None:
    desk = Desk("a", budget=0.05)
    for number in range(10):
        (grant,) = desk.ask("one", ticket=number, cost=0.04)
        desk.service.give_back("a", grant.lease.fence, Abandoned())

    assert desk.service.budget is not None
    assert desk.service.budget.spent_usd == 0.0
    assert not desk.service.budget.is_reached


def test_an_unknown_price_is_said_once_a_model_and_only_with_a_budget() -> None:
    with_budget, without = Desk("a", budget=1.0), Desk("a")
    for desk in (with_budget, without):
        desk.ask("one", cost=None)
        desk.ask("two", cost=None)

    assert len(with_budget.heard(Warned)) == 1
    assert without.heard(Warned) == []


def test_limits_rejections_and_calls_are_known_to_the_next_run(tmp_path: Path) -> None:
    memory = LimitMemory(tmp_path / "limits.json")
    desk = Desk("a", "b", "c", memory=memory)
    grants = {grant.lease.key_name: grant.lease for owner in "xyz" for grant in desk.ask(owner)}
    desk.service.give_back("a", grants["a"].fence, QuotaSpent())
    desk.service.give_back("b", grants["b"].fence, Rejected(reason="bad"))
    desk.service.give_back("c", grants["c"].fence, Succeeded())
    desk.service.save()
    desk.service.save()
    later = Desk("a", "b", "c", memory=memory)
    states = {view.name: view.state for view in later.service.snapshot()}
    renewed = Desk("a", "b", "c", memory=memory, edition=2)

    assert states == {"a": "out_of_quota", "b": "rejected", "c": "available"}
    assert {view.state for view in renewed.service.snapshot()} == {"available"}
    marks = later.service._fingerprints()
    assert {name: record["calls"] for name, record in memory.load(marks).items()} == {"a": 1, "b": 1, "c": 1}


def test_a_memory_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    desk = Desk("a", memory=LimitMemory(blocked / "limits.json"))
    (grant,) = desk.ask("one")
    desk.service.give_back("a", grant.lease.fence, RateLimited(retry_after_seconds=1.0))
    desk.service.save()

    assert len([event for event in desk.heard(Warned) if "remembered" in str(event)]) == 1


def test_the_scarcest_model_decides_how_much_the_keys_carry() -> None:
    desk = Desk("a", "b")
    assert (desk.service.has_business, desk.service.usable_slots()) == (False, 0)
    (grant,) = desk.ask("one")
    assert (desk.service.has_business, desk.service.usable_slots()) == (True, 2)
    desk.service.give_back(grant.lease.key_name, grant.lease.fence, RateLimited(retry_after_seconds=60.0))

    assert desk.service.usable_slots() == 1
