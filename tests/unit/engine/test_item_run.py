"""One attempt at an item: when its nodes start, what is told of it, and when it is given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentos.engine.backends.protocol import WorkerExit
from agentos.engine.item_end import Hold
from agentos.engine.item_run import ItemRun
from agentos.engine.item_watch import TimeLimits
from agentos.engine.loop import Loop
from agentos.engine.messages import (
    DownMessage,
    Heartbeat,
    ItemDone,
    ItemOpened,
    ItemStopped,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
)
from agentos.engine.plan import Item
from agentos.engine.stopping import GRACE
from agentos.events import ChildrenLeaked, Event, ItemNoticed, ItemStarted, NodeFinished, NodeStarted
from agentos.outcomes import Cause

OPENED = ItemOpened(resumed_after="plan", pid=7, notice="set aside")
FIRST = NodeReady(node="draft", finished=[])
SECOND = NodeReady(node="review", finished=[("draft", 0.5)])
DONE = ItemDone(outcome="completed", reason="", finished=[("review", 0.25)], outputs=[])


class SilentBackend:
    """Notes what it is asked for; has no workers."""

    def __init__(self) -> None:
        self.sent: list[DownMessage] = []
        self.killed: list[str] = []

    def load(self) -> None: ...
    def start(self, message: StartItem) -> None: ...

    def send(self, item_id: str, message: DownMessage) -> None:
        self.sent.append(message)

    def kill(self, item_id: str) -> None:
        self.killed.append(item_id)

    def node_of(self, item_id: str) -> str:
        return "node-2"

    def is_elsewhere(self, item_id: str) -> bool:
        return True

    def retire(self, node: str, reason: str) -> bool:
        return False

    def is_suspended(self, item_id: str) -> bool:
        return False

    def suspend_all(self) -> None: ...
    def continue_all(self) -> None: ...
    def pause_output(self) -> None: ...
    def resume_output(self) -> None: ...
    def hold_nothing_back(self) -> None: ...
    def close(self, within_seconds: float) -> None: ...


class Bench:
    def __init__(self) -> None:
        self.now = 100.0
        self.loop = Loop(lambda: self.now)
        self.backend = SilentBackend()
        self.told: list[Event] = []
        self.times_at_work = 0
        self.held: Hold | None = None
        self.is_paused = False

    def item_run(self) -> ItemRun:
        return ItemRun(
            Item(id="42"),
            1,
            self.backend,
            self.loop,
            self.told.append,
            limits=TimeLimits(timeout_seconds=60.0, stall_seconds=30.0, heartbeat_seconds=5.0),
            hold_node=lambda _item_id, _node: self.held,
            on_at_work=self._note_work,
            is_unread=lambda: False,
            is_paused=lambda: self.is_paused,
        )

    def _note_work(self) -> None:
        self.times_at_work += 1

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.loop.post(self.loop.stop)
        self.loop.run()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.close()


def test_an_item_is_told_of_from_its_start_to_its_last_node(bench: Bench) -> None:
    run = bench.item_run()
    for message in (OPENED, FIRST, SECOND, DONE):
        run.take(message)
    assert bench.told == [
        ItemStarted(item_id="42", attempt=1, pid=7, resumed_after="plan", cluster_node="node-2"),
        ItemNoticed(item_id="42", text="set aside"),
        NodeStarted(item_id="42", node="draft"),
        NodeFinished(item_id="42", node="draft", seconds=0.5),
        NodeStarted(item_id="42", node="review"),
        NodeFinished(item_id="42", node="review", seconds=0.25),
    ]
    assert bench.backend.sent == [Proceed(), Proceed()]
    assert run.final_message is DONE
    assert run.has_opened
    assert bench.times_at_work == 1


def test_a_node_that_is_held_does_not_start_and_nor_does_any_after_it(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    bench.held = Hold("paused by hand")
    run.take(FIRST)
    bench.held = None
    run.take(SECOND)
    assert bench.backend.sent == [StopItem(), StopItem()]
    assert run.held == Hold("paused by hand")
    assert not run.is_at_work


def test_a_stopped_item_is_told_of_what_it_has_finished_and_starts_nothing(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    run.stop()
    run.take(SECOND)
    assert bench.backend.sent == [StopItem()]
    assert bench.told[-1] == NodeFinished(item_id="42", node="draft", seconds=0.5)


def test_a_worker_that_has_said_its_final_message_must_exit_in_time(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    run.take(ItemStopped())
    bench.pass_time(GRACE.worker - 0.01)
    assert bench.backend.killed == []
    bench.pass_time(0.02)
    assert bench.backend.killed == ["42"]


def test_a_worker_that_is_gone_is_not_killed(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    run.take(DONE)
    run.worker_gone(WorkerExit(code=0))
    bench.pass_time(1000)
    assert bench.backend.killed == []


def test_an_item_that_takes_too_long_is_given_up_with_the_cause(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    for _ in range(13):
        run.take(FIRST)
        bench.pass_time(5.0)
    assert bench.backend.killed == ["42"]
    assert run.given_up is not None
    assert run.given_up.cause is Cause.TIMED_OUT


def test_children_of_a_worker_that_ended_by_itself_are_told_of(bench: Bench) -> None:
    run = bench.item_run()
    run.worker_gone(WorkerExit(code=0, leaked=(8, 9)))
    assert bench.told == [ChildrenLeaked(item_id="42", pids=(8, 9))]


def test_children_of_a_worker_that_we_ended_go_with_it_unsaid(bench: Bench) -> None:
    run = bench.item_run()
    run.kill()
    run.worker_gone(WorkerExit(code=-9, leaked=(8, 9)))
    assert bench.told == []


def test_no_node_starts_while_the_run_is_paused_and_the_wait_costs_no_time(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    run.take(FIRST)
    bench.is_paused = True
    run.take(SECOND)
    bench.pass_time(20)
    run.take(Heartbeat())
    bench.pass_time(20)
    assert bench.backend.sent == [Proceed()]
    assert run.watch.working_seconds == 0
    bench.is_paused = False
    run.go_on()
    assert bench.backend.sent == [Proceed(), Proceed()]
    assert bench.told[-1] == NodeStarted(item_id="42", node="review")
    bench.pass_time(5)
    assert run.watch.working_seconds == 5


def test_an_item_that_is_stopped_in_a_pause_does_not_go_on_after_it(bench: Bench) -> None:
    run = bench.item_run()
    run.take(OPENED)
    bench.is_paused = True
    run.take(FIRST)
    run.stop()
    bench.is_paused = False
    run.go_on()
    assert bench.backend.sent == [StopItem()]
