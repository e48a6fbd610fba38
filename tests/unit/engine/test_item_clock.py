"""How long an item has really been working."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.engine.item_clock import ItemClock


def test_without_pauses_all_time_counts() -> None:
    clock = ItemClock(100.0)
    assert clock.started == 100.0
    assert clock.worked_seconds(107.5) == 7.5


def test_a_pause_does_not_count_while_it_lasts_nor_afterwards() -> None:
    clock = ItemClock(0.0)
    clock.pause(4.0)
    assert clock.is_paused
    assert clock.worked_seconds(9.0) == 4.0
    clock.go_on(10.0)
    assert not clock.is_paused
    assert clock.worked_seconds(11.0) == 5.0


def test_pausing_twice_changes_nothing() -> None:
    clock = ItemClock(0.0)
    clock.pause(4.0)
    clock.pause(6.0)
    clock.go_on(10.0)
    assert clock.worked_seconds(10.0) == 4.0


def test_going_on_without_a_pause_changes_nothing() -> None:
    clock = ItemClock(0.0)
    clock.go_on(5.0)
    assert clock.worked_seconds(6.0) == 6.0


def test_a_pause_found_late_reaches_back_but_not_before_the_start() -> None:
    clock = ItemClock(10.0)
    clock.pause(3.0)
    clock.go_on(12.0)
    assert clock.worked_seconds(15.0) == 3.0


def test_time_is_not_taken_off_twice_when_a_later_pause_reaches_into_an_earlier_one() -> None:
    clock = ItemClock(0.0)
    clock.pause(5.0)
    clock.go_on(10.0)
    clock.pause(7.0)
    clock.go_on(12.0)
    assert clock.worked_seconds(12.0) == 5.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["pause", "late pause", "go on", "look"])), max_size=20))
def test_any_history_counts_each_unpaused_second_once(history: list[tuple[int, str]]) -> None:
    """Against a clock that keeps a set of paused whole seconds."""
    clock, now, paused, since = ItemClock(0), 0, set[int](), None
    last_go_on = 0
    for seconds, what in history:
        now += seconds
        if what == "go on":
            if since is not None:
                paused |= set(range(since, now))
                last_go_on = now
            since = None
            clock.go_on(now)
        elif what != "look":
            reached = now - 3 if what == "late pause" else now
            if since is None:
                since = max(reached, last_go_on)
            clock.pause(reached)
        paused_now = paused | (set(range(since, now)) if since is not None else set())
        assert clock.worked_seconds(now) == pytest.approx(now - len(paused_now))
