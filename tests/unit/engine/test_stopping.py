"""The steps of a stop fit into what users are promised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentos.engine.loop import Loop
from agentos.engine.stopping import EXITING_SECONDS, GRACE, PROMISED_SECONDS, GraceTimes, Stopping
from agentos.errors import ExitCode
from agentos.processes.children import DRAIN_SECONDS, TERMINATE_GRACE_SECONDS


class Clock:
    """A loop's time, passed by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Steps:
    """What a stop does, in order."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.taken: list[str] = []
        self.stopping = Stopping(
            self.loop, kill_all=lambda: self.taken.append("kill"), give_up=lambda: self.taken.append("give up")
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.loop.post(self.loop.stop)
        self.loop.run()


@pytest.fixture
def steps() -> Iterator[Steps]:
    made = Steps()
    yield made
    made.loop.close()


def test_all_steps_together_keep_the_promise() -> None:
    assert GRACE.total <= PROMISED_SECONDS
    assert GRACE.kill > EXITING_SECONDS


def test_a_node_has_time_to_end_its_own_children() -> None:
    assert GRACE.worker > TERMINATE_GRACE_SECONDS + DRAIN_SECONDS


def test_every_grace_time_is_a_step_and_counts() -> None:
    times = GraceTimes(worker=1, ends_itself=2, kill=4, close=8, sweep=16, flush=32)
    assert times.total == 63
    assert times.kill_after == 3
    assert times.give_up_after == 7


def test_workers_are_killed_and_then_given_up_on(steps: Steps) -> None:
    assert steps.stopping.request(ExitCode.INTERRUPTED, at_once=False)
    steps.pass_time(GRACE.kill_after - 0.01)
    assert steps.taken == []
    steps.pass_time(0.02)
    assert steps.taken == ["kill"]
    steps.pass_time(GRACE.kill)
    assert steps.taken == ["kill", "give up"]


def test_a_second_request_counts_only_when_it_is_more_urgent(steps: Steps) -> None:
    assert steps.stopping.request(ExitCode.QUOTA_GONE, at_once=False)
    assert not steps.stopping.request(ExitCode.INTERRUPTED, at_once=False)
    assert steps.stopping.request(ExitCode.INTERRUPTED, at_once=True)
    assert steps.stopping.exit_code is ExitCode.QUOTA_GONE


def test_a_fault_of_the_run_counts_for_more_than_an_interrupt(steps: Steps) -> None:
    steps.stopping.request(ExitCode.INTERRUPTED, at_once=False)
    steps.stopping.blame_the_run()
    assert steps.stopping.exit_code is ExitCode.ITEM_FAILED


def test_a_reason_of_its_own_counts_for_more_than_a_fault(steps: Steps) -> None:
    steps.stopping.request(ExitCode.BUDGET_REACHED, at_once=False)
    steps.stopping.blame_the_run()
    assert steps.stopping.exit_code is ExitCode.BUDGET_REACHED


@pytest.mark.parametrize("at", [0.0, 1.0, GRACE.kill_after, GRACE.give_up_after])
def test_closing_gets_what_is_left_of_the_promise(steps: Steps, at: float) -> None:
    steps.stopping.request(ExitCode.INTERRUPTED, at_once=False)
    steps.clock.now += at
    seconds = steps.stopping.seconds_to_close()
    assert seconds >= GRACE.close + GRACE.sweep
    assert at + seconds + GRACE.flush == pytest.approx(PROMISED_SECONDS)


def test_closing_a_run_that_nobody_stops_is_not_in_such_a_hurry(steps: Steps) -> None:
    steps.pass_time(1000)
    assert steps.stopping.seconds_to_close() == PROMISED_SECONDS
