"""What a sample run looks like, to the byte, in a pipe and on a terminal; golden files hold it.

To renew the golden files after a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/reporters/test_console.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agentos.events import (
    Event,
    ItemEnded,
    ItemStarted,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.outcomes import APPROVED, FAILED, INTERRUPTED, SKIPPED, Outcome
from agentos.reporters.console import ConsoleReporter, wants_colour

GOLDEN_DIR = Path(__file__).parent / "golden"


class Recording:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes, /) -> None:
        self.writes.append(data)

    @property
    def text(self) -> str:
        return b"".join(self.writes).decode()


class Run:
    """Feeds events to a console reporter under a clock that the test moves."""

    def __init__(self, *, is_terminal: bool = False, columns: int = 80, colour: bool = False) -> None:
        self.now = 100.0
        self.columns = columns
        self.sink = Recording()
        self.reporter = ConsoleReporter(
            self.sink,
            is_terminal=is_terminal,
            columns=lambda: self.columns,
            colour=colour,
            clock=lambda: self.now,
            run_dir=Path("/home/user/.agentos/logs/parallel/20261005-120000-000000"),
        )
        self._sequence = 0

    def emit(self, event: Event, after: float = 0.0) -> None:
        self.now += after
        self._sequence += 1
        time = f"2026-10-05T12:00:{self._sequence:02d}.000Z"
        self.reporter.handle(Stamped(self._sequence, time, "20261005-120000-000000", event))

    def start(self, total: int = 10, prefix: str = "LLD-") -> None:
        ids = tuple(str(41 + n) for n in range(total))
        self.emit(
            RunStarted(
                workflow="lld",
                project_dir="/home/user/shop",
                items=ids,
                parallel=3,
                pid=1,
                label_prefix=prefix,
                resume_command="lld-workflow --all --parallel 3",
            )
        )

    def end_item(self, item_id: str, outcome: Outcome = APPROVED, after: float = 0.0, seconds: float = 2.0) -> None:
        self.emit(ItemEnded(item_id=item_id, outcome=outcome, seconds=seconds), after)


class Screen:
    """As much of a terminal as the reporter uses: it shows what a person would see."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = [""]
        self.row = 0
        self.column = 0

    def feed(self, text: str) -> None:
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|.|\n", text, re.DOTALL):
            self._one(token)

    def _one(self, token: str) -> None:
        if token == "\n":
            self.row, self.column = self.row + 1, 0
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif token == "\r":
            self.column = 0
        elif token == "\x1b[J":
            self.rows[self.row] = self.rows[self.row][: self.column]
            del self.rows[self.row + 1 :]
        elif token.endswith("A") and token.startswith("\x1b"):
            self.row -= int(token[2:-1])
        elif token.startswith("\x1b"):
            raise AssertionError(f"unexpected sequence {token!r}")
        else:
            self._put(token)

    def _put(self, character: str) -> None:
        if self.column == self.columns:
            self._one("\n")
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1


def play_sample(run: Run) -> None:
    """Four items: one resumes, one fails, one is skipped, the keys run out for a while."""
    run.emit(Warned(text="parallelism 20 capped to 10"))
    run.start(total=4)
    run.emit(ItemStarted(item_id="41", attempt=1, pid=11), after=0.2)
    run.emit(ItemStarted(item_id="42", attempt=1, pid=12, resumed_after="N0_load"), after=0.01)
    run.emit(NodeStarted(item_id="41", node="N1_design"), after=0.2)
    run.emit(OutputProduced(item_id="41", block=b"drafting\n\n\x1b[32mok\x1b[0m\n"), after=0.2)
    run.emit(NodeStarted(item_id="42", node="N1_design"), after=0.01)
    run.emit(KeyCoolingDown(key_number=2, key_name="beta", seconds=30), after=0.2)
    run.emit(PoolExhausted(kind="in_use", names=("alpha", "beta"), slots=2), after=0.2)
    run.emit(PoolResumed(waited_seconds=0.2), after=0.2)
    run.emit(NodeFinished(item_id="41", node="N1_design", seconds=0.6), after=0.2)
    run.end_item("41", after=0.2, seconds=12.3)
    failed = ItemEnded(
        item_id="42", outcome=FAILED, seconds=3.1, reason="Invalid spec format", error_type="SpecError"
    )
    run.emit(failed, after=0.2)
    run.emit(ItemEnded(item_id="43", outcome=SKIPPED, seconds=0, reason="dependency 42 failed"), after=0.01)
    run.emit(ItemStarted(item_id="44", attempt=1, pid=14), after=0.2)
    run.emit(StopRequested(reason="SIGINT"), after=0.2)
    run.emit(StopRequested(reason="SIGTERM"), after=0.2)
    run.end_item("44", INTERRUPTED, after=0.2, seconds=0.6)
    run.emit(
        RunEnded(
            counts={APPROVED: 1, FAILED: 1, SKIPPED: 1},
            left=("44",),
            wall_seconds=8.0,
            item_seconds=16.0,
            working_seconds=16.0,
            exit_code=130,
        ),
        after=0.2,
    )


def check_golden(name: str, actual: str) -> None:
    path = GOLDEN_DIR / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(actual)
    assert actual == path.read_text()


def test_a_sample_run_in_a_pipe_reads_exactly_so() -> None:
    run = Run()
    play_sample(run)
    check_golden("console_pipe.txt", run.sink.text)


def test_a_sample_run_on_a_terminal_sends_exactly_these_bytes() -> None:
    run = Run(is_terminal=True, columns=72, colour=True)
    play_sample(run)
    visible = run.sink.text.replace("\x1b", "<ESC>").replace("\r", "<CR>")
    check_golden("console_terminal.txt", visible)


def test_a_sample_run_on_a_terminal_without_colour_sends_exactly_these_bytes() -> None:
    """What it sent before there was any colour but dim and red: NO_COLOR keeps it so."""
    run = Run(is_terminal=True, columns=72)
    play_sample(run)
    visible = run.sink.text.replace("\x1b", "<ESC>").replace("\r", "<CR>")
    check_golden("console_no_colour.txt", visible)


def test_a_terminal_shows_at_the_end_what_a_pipe_was_told() -> None:
    pipe, terminal = Run(), Run(is_terminal=True, columns=200)
    play_sample(pipe)
    play_sample(terminal)
    screen = Screen(200)
    screen.feed(terminal.sink.text)
    plain = [line for line in pipe.sink.text.splitlines() if "workflows complete" not in line]
    shown = [line for line in screen.rows if "workflows complete" not in line]
    assert shown == [*(line.rstrip() if line.strip() == line else line for line in plain), ""]


def test_the_progress_stays_at_the_bottom_while_lines_go_by() -> None:
    run, screen = Run(is_terminal=True), Screen(80)
    run.start()
    run.emit(ItemStarted(item_id="41", attempt=1, pid=1), after=1)
    run.emit(OutputProduced(item_id="41", block=b"one\ntwo\n"), after=1)
    run.emit(OutputProduced(item_id="41", block=b"three\n"))
    screen.feed(run.sink.text)
    assert screen.rows == [
        "[COORDINATOR] 10 items, 3 at a time (graph lld)",
        "[LLD-41] one",
        "[LLD-41] two",
        "[LLD-41] three",
        "[>         ] 0/10 workflows complete · 1 running: LLD-41",
    ]


@pytest.mark.parametrize("columns", [1, 5, 20, 40])
def test_the_progress_never_wraps_in_a_narrow_window(columns: int) -> None:
    run = Run(is_terminal=True, columns=columns)
    play_sample(run)
    for write in run.sink.writes:
        bottom = write.decode().rpartition("\n")[2].rpartition("\x1b[J")[2]
        assert len(bottom) < max(2, columns)


def test_twenty_columns_show_the_bar_and_the_numbers() -> None:
    run, screen = Run(is_terminal=True, columns=20), Screen(20)
    run.start()
    run.end_item("41", after=1)
    screen.feed(run.sink.text)
    assert screen.rows[-1] == "[=>        ] 1/10"


def test_a_window_made_narrower_leaves_no_rest_of_the_old_progress() -> None:
    run = Run(is_terminal=True, columns=80)
    run.start()
    run.emit(ItemStarted(item_id="41", attempt=1, pid=1), after=1)
    drawn = run.sink.writes[-1].decode().removeprefix("\r\x1b[J")
    screen = Screen(30)
    screen.feed(drawn)
    assert len(screen.rows) == 2
    run.columns = 30
    run.emit(NodeStarted(item_id="41", node="N1"), after=1)
    screen.feed(run.sink.writes[-1].decode())
    assert screen.rows == ["[LLD-41] >>> Executing: N1", "[>         ] 0/10 · 1 running"]


def test_an_unknown_width_counts_as_eighty_columns() -> None:
    run = Run(is_terminal=True, columns=0)
    run.start()
    assert run.sink.text.endswith("[>         ] 0/10 workflows complete")


def test_redraws_come_at_most_ten_times_a_second() -> None:
    run = Run(is_terminal=True)
    run.start()
    writes = len(run.sink.writes)
    run.emit(ItemStarted(item_id="41", attempt=1, pid=1), after=0.05)
    assert len(run.sink.writes) == writes
    due = run.reporter.next_tick()
    assert due == pytest.approx(100.1)
    run.reporter.tick(100.06)
    assert len(run.sink.writes) == writes
    run.reporter.tick(due)
    assert run.sink.text.endswith("1 running: LLD-41")
    assert run.reporter.next_tick() is None


def test_the_clock_alone_redraws_once_a_second_and_only_if_the_words_change() -> None:
    run = Run(is_terminal=True)
    run.start()
    run.end_item("41", after=1, seconds=60)
    run.end_item("42", after=1, seconds=60)
    run.emit(ItemStarted(item_id="43", attempt=1, pid=1), after=1)
    drawn_at = run.now
    assert run.reporter.next_tick() == pytest.approx(drawn_at + 1)
    writes = len(run.sink.writes)
    run.reporter.tick(drawn_at + 1)
    assert len(run.sink.writes) == writes
    run.reporter.tick(drawn_at + 300)
    assert len(run.sink.writes) == writes + 1


def test_a_pipe_never_asks_for_ticks() -> None:
    run = Run()
    play_sample(run)
    run.reporter.tick(1e9)
    assert run.reporter.next_tick() is None


def test_a_terminal_asks_for_no_tick_before_the_run_and_after_it() -> None:
    run = Run(is_terminal=True)
    run.emit(StopRequested(reason="SIGINT"))
    assert run.reporter.next_tick() is None
    play_sample(run)
    assert run.reporter.next_tick() is None
    run.emit(Warned(text="late"), after=1)
    assert run.sink.writes[-1] == b"[COORDINATOR] Warning: late\n"


def test_closing_in_the_middle_leaves_a_clean_line() -> None:
    run, screen = Run(is_terminal=True), Screen(80)
    run.start()
    run.reporter.close()
    run.reporter.close()
    screen.feed(run.sink.text)
    assert screen.rows == ["[COORDINATOR] 10 items, 3 at a time (graph lld)", ""]


def test_a_pipe_with_many_items_gets_a_progress_line_a_percent_and_the_last() -> None:
    run = Run()
    run.start(total=1000)
    for number in range(999):
        run.end_item(str(41 + number))
    shown = re.findall(r"\] (\d+)/1000 workflows complete", run.sink.text)
    assert shown == [str(n) for n in range(10, 1000, 10)]
    run.end_item("1040")
    assert run.sink.text.endswith("[COORDINATOR] [==========] 1000/1000 workflows complete\n")


def test_a_second_gentle_stop_is_not_announced_again_but_a_hard_one_is() -> None:
    run = Run()
    for _ in range(2):
        run.emit(StopRequested(reason="SIGINT"))
    run.emit(StopRequested(reason="SIGINT", at_once=True))
    assert run.sink.text == (
        "[COORDINATOR] Shutting down... waiting for workers to checkpoint\n[COORDINATOR] Stopping at once\n"
    )


def test_without_colour_the_workers_colour_is_taken_out_too() -> None:
    run = Run(is_terminal=True, colour=False)
    run.start()
    run.emit(OutputProduced(item_id="41", block=b"\x1b[31mred\x1b[0m\n"), after=1)
    assert "[LLD-41] red\n" in run.sink.text
    assert "\x1b[31m" not in run.sink.text


def test_with_colour_failures_are_red_and_an_items_label_has_its_own_colour() -> None:
    run = Run(colour=True)
    run.emit(ItemEnded(item_id="a", outcome=FAILED, seconds=1, reason="no"))
    run.emit(OutputProduced(item_id="a", block=b"text\n"))
    assert run.sink.text == "\x1b[96m[a]\x1b[0m \x1b[31mFAILED: no\x1b[0m\n\x1b[96m[a]\x1b[0m text\n"


def test_an_empty_block_writes_nothing() -> None:
    run = Run()
    run.emit(OutputProduced(item_id="a", block=b""))
    assert run.sink.writes == []


@pytest.mark.parametrize(
    ("environ", "is_terminal", "expected"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_colour_is_for_terminals_and_never_against_no_color(
    environ: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert wants_colour(environ, is_terminal=is_terminal) is expected
