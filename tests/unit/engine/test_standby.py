"""Who is made ready before its turn."""

from __future__ import annotations

from agentos.engine.schedule import Ending, Schedule
from agentos.engine.standby import Ahead


def make_ready(ahead: Ahead, *next_up: str) -> str | None:
    """The next one, brought to its first node."""
    item_id = ahead.add(next_up)
    if item_id is not None:
        ready = ahead.get(item_id)
        assert ready is not None
        ready.is_waiting = True
    return item_id


def test_no_more_are_made_ready_than_there_is_room_for() -> None:
    ahead = Ahead(2)
    assert [make_ready(ahead, "a", "b", "c") for _ in range(3)] == ["a", "b", None]
    assert list(ahead) == ["a", "b"]


def test_one_is_made_ready_at_a_time() -> None:
    ahead = Ahead(2)
    assert ahead.add(["a", "b"]) == "a"
    assert ahead.add(["a", "b"]) is None
    ready = ahead.get("a")
    assert ready is not None
    ready.is_waiting = True
    assert ahead.add(["a", "b"]) == "b"


def test_taking_one_makes_room_for_the_next() -> None:
    ahead = Ahead(1)
    make_ready(ahead, "a")
    assert ahead.take("a") is not None
    assert ahead.take("a") is None
    assert ahead.add(["b", "c"]) == "b"


def test_one_that_did_not_work_is_not_tried_again() -> None:
    ahead = Ahead(2)
    make_ready(ahead, "a")
    ahead.take("a")
    ahead.spoil("a")
    assert ahead.add(["a", "b"]) == "b"
    assert Ahead(2).add([]) is None


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
