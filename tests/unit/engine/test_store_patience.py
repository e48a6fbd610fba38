"""Waiting for a store that may be away."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agentos.engine.loop import Loop
from agentos.engine.store_patience import StorePatience


class Away:
    """A store that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.why: Exception | None = None
        self.given_up: list[Exception] = []

    def wait(self) -> Exception | None:
        self.asked.set()
        assert self.answers.wait(30)
        return self.why

    def give_up(self, why: Exception) -> None:
        self.given_up.append(why)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_without_a_probe_everything_is_done_at_once(loop: Loop) -> None:
    done: list[str] = []
    StorePatience(loop, None).when_it_answers(lambda: done.append("a"))
    assert done == ["a"]


def test_the_loop_goes_on_while_the_store_is_away_and_then_all_is_done_in_order(loop: Loop) -> None:
    away, done = Away(), []
    patience = StorePatience(loop, away)
    for name in "ab":
        patience.when_it_answers(lambda name=name: done.append(name))  # type: ignore[misc]
    assert away.asked.wait(30)

    def see() -> None:
        done.append("meanwhile")
        away.answers.set()

    loop.post(see)
    patience.when_it_answers(loop.stop)
    loop.run()
    assert done == ["meanwhile", "a", "b"]
    assert away.given_up == []


def test_whoever_waited_in_vain_meets_the_error_without_waiting_again(loop: Loop) -> None:
    away = Away()
    away.why = OSError("gone")
    away.answers.set()
    patience = StorePatience(loop, away)
    patience.when_it_answers(loop.stop)
    loop.run()
    assert away.given_up == [away.why]


def test_after_the_end_nothing_waits(loop: Loop) -> None:
    away, done = Away(), []
    patience = StorePatience(loop, away)
    patience.when_it_answers(lambda: done.append("waited"))
    patience.end()
    patience.when_it_answers(lambda: done.append("later"))
    assert done == ["waited", "later"]
    away.answers.set()
