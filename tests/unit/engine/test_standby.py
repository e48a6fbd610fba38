"""Who is made ready before its turn, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.engine.backends.protocol import WorkerExit
from agentos.engine.checkpoints import store_at
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import FileClaims
from agentos.engine.item_store import ItemStore
from agentos.engine.loop import Loop
from agentos.engine.messages import Heartbeat, ItemOpened, NodeReady, UpMessage
from agentos.engine.schedule import Ending, Schedule
from agentos.engine.standby import Standby
from agentos.events import Event, ItemNoticed

OPENED = ItemOpened(resumed_after=None, pid=7)
WAITS = NodeReady(node="first", finished=[])


class Place:
    """A run with free hands: who gets a worker, what is told, and what the item that starts hears."""

    def __init__(self, store: ItemStore, most: int, next_up: list[str]) -> None:
        self.store = store
        self.next_up = next_up
        self.made: list[str] = []
        self.told: list[Event] = []
        self.heard: list[UpMessage | bytes] = []
        self.is_busy = False
        self.is_out_of_memory = False
        self.loop = Loop()
        self.standby = Standby(
            most,
            self.loop,
            store,
            self.told.append,
            when_store_answers=lambda work: work(),
            next_up=lambda count: self.next_up[:count],
            make_worker=self._make,
            may_prepare=lambda: not self.is_busy,
        )

    def _make(self, item_id: str) -> None:
        if self.is_out_of_memory:
            raise OSError
        self.made.append(item_id)
        self.leave_checkpoint(item_id)

    def leave_checkpoint(self, item_id: str) -> None:
        store_at(self.store.checkpoint_address(item_id)).open(ItemRef("test", item_id)).close()

    def worker_said(self, item_id: str, message: UpMessage) -> None:
        self.heard.append(message)

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        self.heard.append(block)

    def worker_gone(self, item_id: str, end: WorkerExit) -> None:
        raise AssertionError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ItemStore]:
    with FileClaims(tmp_path / "claims.lock") as claims:
        yield ItemStore(tmp_path, "test", claims)


@pytest.fixture
def place(store: ItemStore) -> Iterator[Place]:
    made = Place(store, 2, ["a", "b", "c"])
    yield made
    made.loop.close()


def test_no_more_are_made_ready_than_there_is_room_for(place: Place) -> None:
    place.standby.prepare()
    for item_id in ("a", "b"):
        place.standby.hear(item_id, WAITS)
    assert place.made == list(place.standby) == ["a", "b"]


def test_one_is_made_ready_at_a_time(place: Place) -> None:
    place.standby.prepare()
    place.standby.prepare()
    place.standby.hear("a", OPENED)
    assert place.made == ["a"]
    place.standby.hear("a", WAITS)
    assert place.made == ["a", "b"]


def test_nobody_is_made_ready_while_others_need_the_time(place: Place) -> None:
    place.is_busy = True
    place.standby.prepare()
    assert place.made == []


def test_starts_come_in_bursts_so_the_next_is_made_ready_a_moment_after_the_last(place: Place) -> None:
    place.standby.plan()
    place.standby.plan()
    assert place.made == []
    place.loop.after(0.2, place.loop.stop)
    place.loop.run()
    assert place.made == ["a"]


def test_an_item_that_starts_hears_what_its_worker_said_meanwhile_in_order(place: Place) -> None:
    place.standby.prepare()
    for heard in (OPENED, b"hello\n", Heartbeat(), WAITS):
        place.standby.hear("a", heard)
    assert place.standby.hand_over("a", place)
    assert place.heard == [OPENED, b"hello\n", WAITS]
    assert "a" not in place.standby
    assert not place.standby.hand_over("a", place)
    assert place.store.has_checkpoint("a")


def test_one_that_could_not_be_made_is_not_tried_again(place: Place) -> None:
    place.is_out_of_memory = True
    place.standby.prepare()
    place.is_out_of_memory = False
    place.standby.prepare()
    assert place.made == ["b"]


def test_one_whose_worker_died_is_not_tried_again(place: Place) -> None:
    place.standby.prepare()
    place.standby.worker_gone("a", WorkerExit(code=-9))
    assert place.made == ["a", "b"]


def test_one_that_was_lost_with_its_backend_is_made_ready_again(place: Place) -> None:
    place.standby.prepare()
    place.standby.worker_gone("a", WorkerExit(code=None))
    assert place.made == ["a", "a"]


def test_one_that_is_dropped_leaves_no_trace_but_what_it_found(place: Place) -> None:
    place.standby.prepare()
    place.standby.hear("a", ItemOpened(resumed_after=None, pid=7, notice="the checkpoint is damaged"))
    place.standby.close()
    assert list(place.standby) == []
    assert place.told == [ItemNoticed(item_id="a", text="the checkpoint is damaged")]
    assert not place.store.has_checkpoint("a")


def test_a_checkpoint_that_was_there_before_stays(place: Place) -> None:
    place.leave_checkpoint("a")
    place.standby.prepare()
    place.standby.close()
    assert place.store.has_checkpoint("a")


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
