"""When workers stand still, and from when on their time does not count."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from agentos.engine.backends.protocol import Backend
from agentos.engine.loop import Loop
from agentos.engine.standstill import Standstill


class Bench:
    def __init__(self) -> None:
        self.now = 100.0
        self.loop = Loop(lambda: self.now)
        self.backend = Mock(spec=Backend)
        self.stood_still: list[float] = []
        self.standstill = Standstill(self.loop, self.backend, self.stood_still.append)

    def take_a_turn(self) -> None:
        self.loop.post(self.loop.stop)
        self.loop.run()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.close()


def test_a_reader_that_does_not_keep_up_stops_the_workers_once(bench: Bench) -> None:
    bench.standstill.pause_output()
    bench.now += 5
    bench.standstill.pause_output()
    assert bench.standstill.is_unread
    bench.backend.pause_output.assert_called_once_with()
    assert bench.stood_still == []


def test_time_stood_still_from_the_pause_until_the_reader_has_caught_up(bench: Bench) -> None:
    bench.standstill.pause_output()
    bench.now += 5
    bench.standstill.resume_output()
    bench.backend.resume_output.assert_not_called()  # Not in the middle of an event.
    bench.take_a_turn()
    assert bench.stood_still == [100.0]
    assert not bench.standstill.is_unread
    bench.backend.resume_output.assert_called_once_with()


def test_a_reader_that_was_never_slow_has_nothing_to_resume(bench: Bench) -> None:
    bench.standstill.resume_output()
    bench.take_a_turn()
    assert bench.stood_still == []
    bench.backend.resume_output.assert_not_called()


def test_it_can_be_paused_again_once_it_was_read(bench: Bench) -> None:
    for since in (100.0, 110.0):
        bench.now = since
        bench.standstill.pause_output()
        bench.standstill.resume_output()
        bench.take_a_turn()
    assert bench.stood_still == [100.0, 110.0]


def test_after_a_suspension_that_nobody_saw_time_stood_still_since_the_loop_last_waited(bench: Bench) -> None:
    bench.take_a_turn()
    waited_since = bench.loop.waits_since
    bench.now += 3600
    bench.standstill.was_continued()
    bench.take_a_turn()
    assert bench.stood_still == [waited_since]
