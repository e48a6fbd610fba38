"""What the live block shows of a run as its events come in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentos.dashboard.live import LiveRun
from agentos.events import (
    CallFinished,
    CallStarted,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    NodeFinished,
    NodeStarted,
    RunStarted,
    Stamped,
)
from agentos.outcomes import APPROVED
from agentos.reporters.painting import Painter
from agentos.reporters.progress import Progress

BEGAN = datetime(2026, 10, 5, 12, tzinfo=UTC)
START = RunStarted(workflow="w", project_dir="/p", items=("1", "2"), parallel=2, pid=1, label_prefix="LLD-")


class Run:
    def __init__(self, *stages: str, colour: bool = False) -> None:
        self.now = BEGAN
        self.progress = Progress()
        self.live = LiveRun(Painter(colour=colour), self.progress, stages, clock=lambda: self.now)

    def emit(self, *events: Event) -> None:
        for event in events:
            self.now += timedelta(seconds=1)
            self.progress.note(event, 0.0)
            self.live.note(Stamped(1, self.now.isoformat(), "run", event))

    def lines(self, columns: int = 100, rows: int = 20) -> list[str]:
        return [line.text for line in self.live.lines(columns, rows, 0.0)]


def begin(item_id: str, *nodes: str) -> list[Event]:
    return [ItemStarted(item_id=item_id, attempt=1, pid=1), *(NodeStarted(item_id=item_id, node=n) for n in nodes)]


def test_known_stages_are_dots_from_the_start() -> None:
    run = Run("load", "design", "review")
    run.emit(START, *begin("1", "load"))
    assert run.lines() == ["LLD-1  ◉○○  load  working 0:00  0:01", "[>         ] 0/2 workflows complete"]


def test_unknown_stages_are_learned_as_items_come_to_them() -> None:
    run = Run()
    run.emit(START, *begin("1", "a"), NodeFinished(item_id="1", node="a", seconds=1), *begin("2", "a"))
    assert [line[:9] for line in run.lines()[:2]] == ["LLD-1  ● ", "LLD-2  ◉ "]
    run.emit(NodeStarted(item_id="1", node="b"))
    assert [line[:9] for line in run.lines()[:2]] == ["LLD-1  ●◉", "LLD-2  ◉○"]


def test_a_graph_of_very_many_nodes_has_no_dots() -> None:
    run = Run()
    run.emit(START, *begin("1", *(f"n{number}" for number in range(40))))
    assert run.lines()[0].startswith("LLD-1  n39  working")


def test_what_the_run_has_spent_stands_beside_the_bar() -> None:
    run = Run()
    started = CallStarted(item_id="1", node="a", model="m", key_name="k")
    call = CallFinished(
        item_id="1",
        node="a",
        model="m",
        key_name="k",
        seconds=1,
        outcome="ok",
        input_tokens=900,
        output_tokens=334,
        cost_usd=2,
    )
    run.emit(START, *begin("1", "a"), started, call)
    run.emit(ItemEnded(item_id="1", outcome=APPROVED, seconds=1))
    assert run.lines() == ["[=====>    ] 1/2 workflows complete · $2.00 · 1,234 tokens"]
    assert run.lines(columns=50) == ["[=====>    ] 1/2 workflows complete · $2.00"]
    assert run.lines(columns=20) == ["[=====>    ] 1/2"]


def test_an_item_that_is_tried_again_is_not_running_in_between() -> None:
    run = Run()
    run.emit(START, *begin("1", "a"), ItemRetried(item_id="1", attempt=1, reason="crashed"))
    assert len(run.lines()) == 1
    run.emit(*begin("1"))
    assert run.lines()[0].startswith("LLD-1  ○  starting")


def test_half_of_the_window_is_left_for_what_has_ended() -> None:
    run = Run()
    run.emit(START, *begin("1"), *begin("2"))
    assert len(run.lines(rows=10)) == 3
    assert run.lines(rows=4)[0] == "+2 more running"
    assert len(run.lines(rows=1)) == 1


def test_an_items_line_has_its_colour() -> None:
    run = Run("a", colour=True)
    run.emit(START, *begin("1", "a"))
    assert run.lines()[0].startswith(f"\x1b[{Painter(colour=True).label_style('LLD-1')}mLLD-1\x1b[0m")
