"""One log an item: its output without colour, its nodes, its end with everything about a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.events import (
    ChildrenLeaked,
    Event,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    RunEnded,
    RunStarted,
    Stamped,
    StopRequested,
)
from agentos.outcomes import APPROVED, COMPLETED, FAILED, SKIPPED
from agentos.reporters.logs import LogReporter

AT = "2026-10-05T12:00:00.000Z"


def feed(reporter: LogReporter, *events: Event) -> None:
    for number, event in enumerate(events):
        reporter.handle(Stamped(number, AT, "run", event))


def open_files(directory: Path) -> list[str]:
    """Names of this process's open files in a directory."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    targets = [link.readlink() for link in links if link.exists()]
    return sorted(target.name for target in targets if target.parent == directory)


def test_a_log_tells_an_items_whole_story(tmp_path: Path) -> None:
    reporter = LogReporter(tmp_path)
    feed(
        reporter,
        RunStarted(workflow="w", project_dir="/p", items=("42",), parallel=1, pid=1),
        ItemStarted(item_id="42", attempt=1, pid=7, resumed_after="N0_load"),
        NodeStarted(item_id="42", node="N1_design"),
        OutputProduced(item_id="42", block=b"\x1b[31mred\x1b[0m\nplain \xc3\xa9\n"),
        NodeFinished(item_id="42", node="N1_design", seconds=1.25),
        ItemNoticed(item_id="42", text="worker was suspended"),
        ItemStalled(item_id="42", silent_seconds=60),
        ChildrenLeaked(item_id="42", pids=(8, 9)),
        StopRequested(reason="SIGINT"),
        ItemEnded(
            item_id="42",
            outcome=FAILED,
            seconds=12.3,
            reason="Invalid spec format",
            error_type="SpecError",
            traceback="Traceback (most recent call last):\n  File x\nSpecError: \x1b[2JInvalid",
        ),
        RunEnded(counts={FAILED: 1}, left=(), wall_seconds=1, item_seconds=1, exit_code=1),
    )
    reporter.close()
    assert (tmp_path / "42.log").read_text() == (
        f"{AT} attempt 1 started (pid 7), resuming after N0_load\n"
        f"{AT} >>> Executing: N1_design\n"
        "\x1b[31mred\x1b[0m\n"
        "plain é\n"
        f"{AT} <<< Finished: N1_design (1.2s)\n"
        f"{AT} worker was suspended\n"
        f"{AT} no sign of life for 1m 00s, ending it\n"
        f"{AT} left 2 processes (pids 8, 9) behind; ended now\n"
        f"{AT} FAILED after 12.3s in 1 attempt: SpecError: Invalid spec format\n"
        "Traceback (most recent call last):\n  File x\nSpecError: Invalid\n"
    )


def test_a_retry_continues_in_the_same_log(tmp_path: Path) -> None:
    reporter = LogReporter(tmp_path)
    feed(
        reporter,
        ItemStarted(item_id="a", attempt=1, pid=7),
        ItemRetried(item_id="a", attempt=1, reason="killed by signal 9"),
        ItemStarted(item_id="a", attempt=2, pid=8),
        ItemEnded(item_id="a", outcome=APPROVED, seconds=1, attempts=2),
    )
    assert (tmp_path / "a.log").read_text().splitlines() == [
        f"{AT} attempt 1 started (pid 7)",
        f"{AT} attempt 1 failed: killed by signal 9; trying again",
        f"{AT} attempt 2 started (pid 8)",
        f"{AT} approved after 1.0s in 2 attempts",
    ]


def test_only_running_items_have_an_open_log(tmp_path: Path) -> None:
    reporter = LogReporter(tmp_path)
    feed(reporter, ItemStarted(item_id="a", attempt=1, pid=1), ItemStarted(item_id="b", attempt=1, pid=2))
    assert open_files(tmp_path) == ["a.log", "b.log"]
    feed(reporter, ItemEnded(item_id="a", outcome=COMPLETED, seconds=1))
    feed(reporter, ItemEnded(item_id="c", outcome=SKIPPED, seconds=0, reason="dependency a failed"))
    feed(reporter, ChildrenLeaked(item_id="a", pids=(9,)))
    assert open_files(tmp_path) == ["b.log"]
    feed(reporter, ItemRetried(item_id="b", attempt=1, reason="killed"))
    assert open_files(tmp_path) == []
    feed(reporter, ItemStarted(item_id="b", attempt=2, pid=2))
    reporter.close()
    assert open_files(tmp_path) == []
    assert (tmp_path / "c.log").read_text() == f"{AT} skipped: dependency a failed\n"


def test_a_log_that_cannot_be_written_is_the_callers_to_know(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        feed(LogReporter(tmp_path / "gone"), ItemStarted(item_id="a", attempt=1, pid=1))
