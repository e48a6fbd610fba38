"""Where a run stands, live on a terminal and line by line in a pipe, and what is said at its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import Finished, Sandbox, eventually
from providers import PoolKey, provider
from terminal import Terminal

_STREAM = ("--output-mode", "stream")
_STATUS = re.compile(r"\[=*>? *\] \d+/\d+")


def _status_rows(rows: list[str]) -> list[int]:
    """Which rows begin with a bar: live status, not a line of the coordinator's."""
    return [number for number, row in enumerate(rows) if _STATUS.match(row)]


def _write_waiting(sandbox: Sandbox, count: int) -> None:
    """Items whose second node waits for `go-ITEM`."""
    ids = [f"item-{number}" for number in range(count)]
    sandbox.write_items(
        *({"id": i, "input": {"tasks": {"n1": "print " + "x" * 50, "n2": f"wait go-{i}"}}} for i in ids)
    )


def _release(sandbox: Sandbox, *numbers: int) -> None:
    for number in numbers:
        sandbox.release(f"go-item-{number}")


def test_a_pipe_gets_a_plain_line_each_time_an_item_ends(sandbox: Sandbox) -> None:
    _write_waiting(sandbox, 5)
    _release(sandbox, 0, 1, 2, 3, 4)
    done = sandbox.run("--parallel", "2")
    assert not set("\r\x1b") & set(done.stdout)
    shown = [line.removeprefix("[COORDINATOR] ") for line in done.lines if "workflows complete" in line]
    assert [re.match(r"\[(.{10})\] (\d)/5 workflows complete( · |$)", line)[2] for line in shown] == list("12345")  # type: ignore[index]
    assert shown[-1] == "[==========] 5/5 workflows complete"
    assert re.search(r" · 1 running: item-\d", shown[0])
    assert re.search(r"(under|about) \d+ s left$|\d+-\d+ s left$", shown[2])


def test_a_terminal_shows_the_run_in_its_last_line_while_output_goes_by_above(sandbox: Sandbox) -> None:
    _write_waiting(sandbox, 4)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2", *_STREAM), columns=100) as terminal:
        terminal.wait_for("0/4 workflows complete · 2 running: item-0 item-1")
        eventually(lambda: terminal.text().count(">>> Executing: n2") == 2, "both at n2")
        rows = terminal.screen(100).rows
        assert rows[-1] == "[>         ] 0/4 workflows complete · 2 running: item-0 item-1"
        assert _status_rows(rows) == [len(rows) - 1]
        _release(sandbox, 0, 1)
        terminal.wait_for("2/4 workflows complete · 2 running: item-2 item-3")
        _release(sandbox, 2, 3)
        assert terminal.wait() == 0
        rows = terminal.screen(100).rows
    assert _status_rows(rows) == []
    assert rows.count("[COORDINATOR] [==========] 4/4 workflows complete") == 1
    assert rows.count("[item-3] " + "x" * 50) == 1
    assert rows[-1] == ""


def test_a_narrow_window_keeps_the_status_on_one_row(sandbox: Sandbox) -> None:
    _write_waiting(sandbox, 4)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2", *_STREAM), columns=30) as terminal:
        eventually(lambda: terminal.text().count(">>> Executing: n2") == 2, "both at n2")
        _release(sandbox, 0, 1)
        terminal.wait_for("2/4")
        eventually(lambda: terminal.text().count(">>> Executing: n2") == 4, "the others at n2")
        rows = terminal.screen(30).rows
        assert _status_rows(rows) == [len(rows) - 1]
        assert len(rows[-1]) < 30
        _release(sandbox, 2, 3)
        assert terminal.wait() == 0
        rows = terminal.screen(30).rows
    assert _status_rows(rows) == []
    assert "".join(rows).count("4/4 workflows complete") == 1


def test_a_window_made_narrower_leaves_no_piece_of_the_status_behind(sandbox: Sandbox) -> None:
    _write_waiting(sandbox, 2)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2", *_STREAM), columns=100) as terminal:
        terminal.wait_for("0/2 workflows complete · 2 running: item-0 item-1")
        terminal.resize(40, 30)
        drawn_wide = len(terminal.drawn())
        _release(sandbox, 0)
        terminal.wait_for("1/2")
        _release(sandbox, 1)
        assert terminal.wait() == 0
        after = terminal.drawn()[drawn_wide:].decode()
    # The old status took two rows of the narrow window: the cursor goes up one before it erases.
    assert "\x1b[1A\r\x1b[J" in after
    assert all(
        len(status) < 40 for status in re.findall(r"(?<=\x1b\[J)\[[=> ]{10}\][^\r\x1b]*", after.split("1/2", 1)[1])
    )


def test_no_color_is_honoured_on_a_terminal(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1", "input": {"tasks": {"n1": "raise red?"}}})
    with Terminal(sandbox, *sandbox.arguments(), env={"NO_COLOR": "1"}) as plain:
        assert plain.wait() == 1
    assert not re.search(rb"\x1b\[[0-9;]*m", plain.drawn())
    with Terminal(sandbox, *sandbox.arguments()) as coloured:
        assert coloured.wait() == 1
    assert b"\x1b[31mFAILED: red?\x1b[0m" in coloured.drawn()


@pytest.mark.slow  # test_live_output.py compares all that such a terminal gets with what a pipe gets.
def test_a_dumb_terminal_gets_lines_only(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"})
    with Terminal(sandbox, *sandbox.arguments(), env={"TERM": "dumb"}) as terminal:
        assert terminal.wait() == 0
    assert b"\x1b" not in terminal.drawn()
    assert "[COORDINATOR] [==========] 1/1 workflows complete" in terminal.text()


def _summary(done: Finished) -> list[str]:
    """What comes after the last progress line."""
    last = max(number for number, line in enumerate(done.lines) if "workflows complete" in line)
    return done.lines[last + 1 :]


def test_the_summary_says_how_it_went_why_what_failed_where_to_look_and_how_to_go_on(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "a1"},
        {"id": "a2", "input": {"tasks": {"n2": "raise Invalid spec format"}}},
        {"id": "a3", "depends_on": ["a2"]},
        {"id": "a4", "input": {"outcome": "needs_revision"}},
    )
    done = sandbox.run("--parallel", "3")
    assert done.code == 1
    counts, failed, log, times, resume, logs, results = _summary(done)
    run_dir = sandbox.run_dirs()[-1]
    assert counts == "[COORDINATOR] 1 completed, 1 needs revision, 1 failed (a2), 1 skipped"
    assert failed == "[a2] FAILED: Invalid spec format"
    assert log == f"[a2] log: {run_dir / 'a2.log'}"
    assert "ValueError: Invalid spec format" in Path(log.partition("log: ")[2]).read_text()
    assert re.match(r"\[COORDINATOR\] \d+\.\ds in all, \d+\.\ds of work", times)
    assert resume == f"[COORDINATOR] Resume with: agentos {' '.join(sandbox.arguments('--parallel', '3'))}"
    assert (logs, results[:13]) == (f"[COORDINATOR] Logs: {run_dir}", "[COORDINATOR]")


def test_the_summary_of_one_good_item_is_short(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"})
    done = sandbox.run()
    counts, times, logs, results = _summary(done)
    assert counts == "[COORDINATOR] 1 completed"
    assert re.fullmatch(r"\[COORDINATOR\] \d+\.\ds in all", times)
    assert logs.startswith("[COORDINATOR] Logs: ")
    assert results == "[COORDINATOR] Results of the graph: agentos runs result"


def test_a_speed_up_is_told_where_there_is_one(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"a{number}", "input": {"tasks": {"n1": "sleep 2"}}} for number in range(8)))
    done = sandbox.run("--parallel", "8")
    assert any(re.search(r"of work: [1-8]\.\d times as fast as one by one$", line) for line in _summary(done))


def test_waiting_for_the_one_key_is_no_speed_up(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"a{number}"} for number in range(3)))
    with provider(sandbox, PoolKey(name="alpha"), latency_seconds=2.0):
        done = sandbox.run("--parallel", "3", graph="callers")
    assert done.code == 0, done.stdout
    assert any("of work and" in line and line.endswith("of waiting") for line in _summary(done)), done.stdout
    assert "times as fast" not in done.stdout
