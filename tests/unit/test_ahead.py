"""Who is made ready before its turn."""

from __future__ import annotations

from agentos.workflows.parallel.ahead import Ahead
from agentos.workflows.parallel.schedule import Ending, Schedule


def test_no_more_are_made_ready_than_there_is_room_for() -> None:
    ahead = Ahead(2)
    assert ahead.to_make(["a", "b", "c"]) == ["a", "b"]
    assert ahead.to_make(["a", "b", "c"]) == []
    assert list(ahead) == ["a", "b"]


def test_taking_one_makes_room_for_the_next() -> None:
    ahead = Ahead(1)
    ahead.to_make(["a"])
    assert ahead.take("a") is not None
    assert ahead.take("a") is None
    assert ahead.to_make(["b", "c"]) == ["b"]


def test_one_that_did_not_work_is_not_tried_again() -> None:
    ahead = Ahead(2)
    ahead.to_make(["a"])
    ahead.take("a")
    ahead.spoil("a")
    assert ahead.to_make(["a", "b"]) == ["b"]


def test_next_up_are_the_items_that_only_wait_for_a_place() -> None:
    schedule = Schedule(
        ["first", "needs-first", "rival-of-first", "second", "third"],
        {"needs-first": ["first"]},
        limit=1,
        exclusive={"first": ["rival-of-first"]},
    )
    schedule.begin()
    assert schedule.next_up(1) == ["second"]
    assert schedule.next_up(9) == ["second", "third"]
    schedule.ended("first", Ending.DONE)
    assert schedule.next_up(9) == ["rival-of-first", "second", "third"]


def test_an_item_that_comes_back_after_a_crash_is_not_made_ready() -> None:
    schedule = Schedule(["a", "b"], limit=1, retries=1)
    schedule.begin()
    schedule.limit_changed(0)
    schedule.ended("a", Ending.CRASHED)
    assert schedule.next_up(9) == ["b"]


def test_nothing_is_next_once_the_run_stops() -> None:
    schedule = Schedule(["a", "b"], limit=1)
    schedule.begin()
    schedule.stop()
    assert schedule.next_up(9) == []
