"""An item's time under a clock of our own: limits, silence, and the waiting that does not count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentos.engine.item_watch import START_SECONDS, ItemWatch, TimeLimits
from agentos.engine.loop import Loop


class Heard:
    """What the watch tells, and what the machine looks like to it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.unread = False
        self.is_suspended = False

    def is_unread(self) -> bool:
        return self.unread

    def suspended(self, item_id: str) -> None:
        self.told.append(f"{item_id} suspended")

    def timed_out(self, item_id: str) -> None:
        self.told.append(f"{item_id} timed out")

    def stalled(self, item_id: str, silent_seconds: float) -> None:
        self.told.append(f"{item_id} stalled after {silent_seconds:.0f}")


class Scene:
    def __init__(self) -> None:
        self.now = 100.0
        self.loop = Loop(lambda: self.now)
        self.heard = Heard()
        limits = TimeLimits(timeout_seconds=60, stall_seconds=10, heartbeat_seconds=2)
        self.watch = ItemWatch("a", self.loop, limits, self.heard, lambda: self.heard.is_suspended)

    def pass_time(self, seconds: float, *, alive: bool = True) -> None:
        """In steps of a second, with a heartbeat each when the worker is alive."""
        for _ in range(int(seconds)):
            self.now += 1.0
            if alive:
                self.watch.hear()
            self.loop.run_due_timers()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.loop.close()


def test_the_time_limit_counts_from_the_items_start(scene: Scene) -> None:
    scene.pass_time(50)
    scene.watch.begin()
    scene.pass_time(59)
    assert scene.heard.told == []
    scene.pass_time(2)
    assert scene.heard.told == ["a timed out"]


def test_waiting_for_a_key_does_not_count(scene: Scene) -> None:
    scene.watch.begin()
    scene.watch.wait_for_key(True)
    scene.pass_time(500)
    scene.watch.wait_for_key(False)
    scene.pass_time(55)
    assert scene.heard.told == []
    scene.pass_time(10)
    assert scene.heard.told == ["a timed out"]


def test_a_silent_worker_is_stalled_and_a_suspended_one_is_not(scene: Scene) -> None:
    scene.watch.begin()
    scene.heard.is_suspended = True
    scene.pass_time(50, alive=False)
    assert scene.heard.told == ["a suspended"]
    scene.heard.is_suspended = False
    scene.watch.hear()
    scene.pass_time(9, alive=False)
    assert scene.heard.told == ["a suspended"]
    scene.pass_time(3, alive=False)
    assert scene.heard.told[1:] == ["a stalled after 10"]


@pytest.mark.parametrize("rest", range(8, 30))
def test_a_worker_that_was_suspended_has_the_whole_time_to_speak_again(scene: Scene, rest: int) -> None:
    scene.watch.begin()
    scene.heard.is_suspended = True
    scene.pass_time(rest, alive=False)
    scene.heard.is_suspended = False
    scene.pass_time(8, alive=False)
    assert scene.heard.told in ([], ["a suspended"])


def test_a_worker_that_never_speaks_again_after_it_was_suspended_is_stalled(scene: Scene) -> None:
    scene.watch.begin()
    scene.heard.is_suspended = True
    scene.pass_time(50, alive=False)
    scene.heard.is_suspended = False
    scene.pass_time(10 + 2, alive=False)
    assert scene.heard.told == ["a suspended", "a stalled after 10"]


def test_an_unread_worker_is_neither_stalled_nor_timed_out(scene: Scene) -> None:
    scene.watch.begin()
    scene.heard.unread = True
    scene.pass_time(300, alive=False)
    assert scene.heard.told == []
    scene.heard.unread = False
    scene.watch.stood_still(since=100.0)
    scene.pass_time(55)
    assert scene.heard.told == []


def test_a_worker_that_never_opens_its_item_is_stalled(scene: Scene) -> None:
    scene.pass_time(START_SECONDS - 1, alive=False)
    assert scene.heard.told == []
    scene.pass_time(2, alive=False)
    assert scene.heard.told == [f"a stalled after {START_SECONDS:.0f}"]


def test_a_closed_watch_is_silent(scene: Scene) -> None:
    scene.watch.begin()
    scene.watch.close()
    scene.watch.wait_for_key(True)
    scene.watch.wait_for_key(False)
    scene.watch.stood_still(since=0.0)
    scene.pass_time(1000, alive=False)
    assert scene.heard.told == []
    assert scene.watch.seconds == 1000.0
