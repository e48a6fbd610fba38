"""What is told in each output mode, and the window's title."""

from __future__ import annotations

import pytest

from agentos.events import (
    ChildrenLeaked,
    ControlTaken,
    CustomWritten,
    Event,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStarted,
    NodeStarted,
    OutputProduced,
    PoolExhausted,
    PoolResumed,
    RunFaulted,
    RunNoticed,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.outcomes import APPROVED, FAILED, NEEDS_REVISION, SKIPPED
from agentos.reporters.console import ConsoleReporter
from agentos.reporters.output_mode import OutputMode
from agentos.reporters.progress import Progress
from agentos.reporters.title import WindowTitle
from agentos.reporters.told import is_told


def end(outcome: object) -> ItemEnded:
    return ItemEnded(item_id="1", outcome=outcome, seconds=1)  # type: ignore[arg-type]


START = RunStarted(workflow="lld", project_dir="/shop", items=("1", "2"), parallel=2, pid=1, label_prefix="LLD-")
OUTPUT = OutputProduced(item_id="1", block=b"one\ntwo\n")
IN_BOTH = [
    Warned(text="w"),
    RunFaulted(reason="r"),
    end(FAILED),
    end(SKIPPED),
    ItemRetried(item_id="1", attempt=1, reason="crashed"),
    ChildrenLeaked(item_id="1", pids=(7,)),
    PoolExhausted(kind="limited"),
    PoolExhausted(kind="none_valid"),
    StopRequested(reason="SIGINT"),
]
IN_LIVE_ONLY = [
    START,
    end(APPROVED),
    end(NEEDS_REVISION),
    ItemStarted(item_id="1", attempt=1, pid=7, resumed_after="N1"),
    ItemNoticed(item_id="1", text="n"),
    ControlTaken(act="pause", by="ada"),
    RunNoticed(text="n"),
]
IN_NEITHER = [
    OUTPUT,
    CustomWritten(item_id="1", node="n", data="d"),
    NodeStarted(item_id="1", node="n"),
    PoolExhausted(kind="in_use"),
    PoolResumed(waited_seconds=1),
]


@pytest.mark.parametrize("event", [*IN_BOTH, *IN_LIVE_ONLY, *IN_NEITHER], ids=lambda event: type(event).__name__)
def test_each_mode_tells_what_it_is_for(event: Event) -> None:
    assert is_told(OutputMode.STREAM, event)
    assert is_told(OutputMode.LIVE, event) is (event not in IN_NEITHER)
    assert is_told(OutputMode.QUIET, event) is (event in IN_BOTH)


class Run:
    def __init__(self, mode: OutputMode) -> None:
        self.now = 100.0
        self.sent = b""
        self.reporter = ConsoleReporter(self, is_terminal=True, columns=lambda: 80, clock=lambda: self.now, mode=mode)

    def write(self, data: bytes, /) -> None:
        self.sent += data

    def emit(self, *events: Event) -> None:
        for number, event in enumerate(events):
            self.now += 1
            self.reporter.handle(Stamped(number, f"2026-10-05T12:00:{number:02d}.000Z", "run", event))


def test_a_failed_item_shows_its_last_lines_in_live_mode() -> None:
    run = Run(OutputMode.LIVE)
    run.emit(START, OUTPUT, CustomWritten(item_id="1", node="n", data={"a": 1}), end(FAILED))
    told = b'[LLD-1] one\n[LLD-1] two\n[LLD-1] {"a": 1}\n[LLD-1] FAILED: no reason was given\n'
    assert run.sent.count(b"one") == 1
    assert told in run.sent


def test_an_item_that_ends_well_shows_none_and_a_second_attempt_starts_anew() -> None:
    run = Run(OutputMode.LIVE)
    run.emit(START, OUTPUT, end(APPROVED), end(FAILED))
    assert b"one" not in run.sent


def test_quiet_tells_what_went_wrong_and_draws_nothing() -> None:
    run = Run(OutputMode.QUIET)
    run.emit(START, OUTPUT, end(APPROVED), ItemEnded(item_id="2", outcome=FAILED, seconds=1, reason="no"))
    assert run.sent == b"[LLD-2] FAILED: no\n"
    assert run.reporter.next_tick() is None


def test_the_title_follows_the_items_at_most_twice_a_second_and_is_given_back() -> None:
    run, progress = Run(OutputMode.STREAM), Progress()
    title = WindowTitle(run, progress, lambda: run.now)
    stamped = Stamped(1, "2026-10-05T12:00:00.000Z", "run", START)
    title.handle(stamped)
    title.restore()
    assert run.sent == b""
    progress.note(START, 0.0)
    title.handle(stamped)
    assert run.sent == b"\x1b[22;2t\x1b]2;agentos 0/2\x07"
    progress.note(end(APPROVED), 1.0)
    title.handle(stamped)
    run.now += 0.6
    title.handle(stamped)
    title.handle(stamped)
    assert run.sent.endswith(b"\x1b]2;agentos 0/2\x07\x1b]2;agentos 1/2\x07")
    title.restore()
    title.restore()
    assert run.sent.endswith(b"agentos 1/2\x07\x1b]2;\x07\x1b[23;2t")
