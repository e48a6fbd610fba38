"""Calls and waits on record: each call with what it came to, each wait of more than a moment with its cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentos.engine.call_events import MOMENT_SECONDS, CallEvents
from agentos.engine.loop import Loop
from agentos.events import CallFinished, CallStarted, Event, ItemWaited, ItemWaiting
from agentos.keys.leases import Lease
from agentos.providers.evidence import Evidence, Overloaded, RateLimited, Rejected, Succeeded, Usage

LEASE = Lease(key_name="K1", fence=7, provider="google", model="m", secret="s")


class Bench:
    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[Event] = []
        self.causes: dict[str, str] = {}
        self.loop = Loop(lambda: self.now)
        self.news = CallEvents(self.loop, self.told.append, lambda _item: "draft", lambda: self.causes)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.loop.run_due_timers()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.close()


def test_a_call_is_told_when_it_goes_out_and_when_it_is_back(bench: Bench) -> None:
    bench.news.asked("42", 1)
    bench.after(0.1)
    bench.news.granted("42", 1, LEASE)
    bench.after(2.0)
    bench.news.returned(7, Succeeded(usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)))
    assert bench.told == [
        CallStarted(item_id="42", node="draft", model="google:m", key_name="K1", waited_seconds=0.1),
        CallFinished(
            item_id="42",
            node="draft",
            model="google:m",
            key_name="K1",
            seconds=2.0,
            outcome="ok",
            waited_seconds=0.1,
            input_tokens=10,
            output_tokens=5,
            cost_usd=0.25,
        ),
    ]


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [(RateLimited(), "rate_limited"), (Rejected(), "rejected"), (Overloaded(), "overloaded")],
)
def test_what_came_instead_of_an_answer_is_told(bench: Bench, evidence: Evidence, outcome: str) -> None:
    bench.news.granted("42", 1, LEASE)
    bench.news.returned(7, evidence)
    assert [event.outcome for event in bench.told if isinstance(event, CallFinished)] == [outcome]


def test_calls_of_a_worker_that_is_gone_are_abandoned_and_nobody_elses(bench: Bench) -> None:
    bench.news.granted("42", 1, LEASE)
    bench.news.asked("42", 2)
    bench.news.worker_gone("43")
    assert len(bench.told) == 1
    bench.news.worker_gone("42")
    bench.news.returned(7, Succeeded())
    assert [event.outcome for event in bench.told if isinstance(event, CallFinished)] == ["abandoned"]


def test_a_moment_is_no_wait(bench: Bench) -> None:
    bench.causes = {"42": "busy"}
    bench.news.waiting({"42"})
    bench.after(MOMENT_SECONDS / 2)
    bench.news.waiting(set())
    bench.after(10.0)
    assert bench.told == []


def test_a_wait_is_told_once_with_its_cause_and_once_when_it_ends(bench: Bench) -> None:
    bench.causes = {"42": "busy"}
    bench.news.waiting({"42"})
    bench.after(0.3)
    bench.news.waiting({"42"})
    bench.after(0.7)
    bench.news.waiting(set())
    assert bench.told == [
        ItemWaiting(item_id="42", cause="busy", seconds=0.3),
        ItemWaited(item_id="42", cause="busy", seconds=1.0),
    ]


def test_another_cause_is_another_wait(bench: Bench) -> None:
    bench.causes = {"42": "busy"}
    bench.news.waiting({"42"})
    bench.after(1.0)
    bench.causes = {"42": "limited"}
    bench.news.waiting({"42"})
    bench.after(2.0)
    bench.news.waiting(set())
    assert [(type(event), getattr(event, "cause", "")) for event in bench.told] == [
        (ItemWaiting, "busy"),
        (ItemWaited, "busy"),
        (ItemWaiting, "limited"),
        (ItemWaited, "limited"),
    ]
    assert [event.seconds for event in bench.told if isinstance(event, ItemWaited)] == [1.0, 2.0]


def test_nothing_is_told_of_who_is_gone_or_was_refused(bench: Bench) -> None:
    bench.causes = {"42": "busy"}
    bench.news.waiting({"42"})
    bench.after(1.0)
    bench.news.worker_gone("42")
    bench.news.waiting(set())
    assert [type(event) for event in bench.told] == [ItemWaiting]
    bench.news.asked("43", 1)
    bench.news.withdrawn("43", 1)
    bench.after(5.0)
    bench.news.granted("43", 1, LEASE)
    assert isinstance(bench.told[-1], CallStarted)
    assert bench.told[-1].waited_seconds == 0.0
    bench.news.close()
