"""Output modes of a run, on real terminals: the live block, what goes by above it, and what is left at the end."""

from __future__ import annotations

import os
import re
import signal
import sys

from harness import AGENTOS, Sandbox, eventually, no_process_left
from terminal import Screen, Terminal

_LIVE = ("--output-mode", "live")
_CHANGING = re.compile(
    r"\d+(\.\d+)?s\b|\d{8}-\d{6}-\d{6}|\S+\.(log|jsonl)|[\d-]+ s left|(under|about) |cost: unknown: .*"
)
"""From run to run: times, and what past runs tell."""


def _write_waiting(sandbox: Sandbox, count: int) -> list[str]:
    """Items that write a line and wait at their second node for `go-ITEM`."""
    ids = [f"item-{number}" for number in range(count)]
    sandbox.write_items(
        *({"id": i, "input": {"tasks": {"n1": f"print I am {i}", "n2": f"wait go-{i}"}}} for i in ids)
    )
    return ids


def _at_work(screen: Screen, *ids: str) -> bool:
    """Each of these has its own line in the block, at its second node."""
    return all(any(re.match(rf"{i} +[●◉○]+  n2 ", row) for row in screen.rows) for i in ids)


def test_a_terminal_shows_what_each_item_does_and_what_has_ended_above_it(sandbox: Sandbox) -> None:
    ids = _write_waiting(sandbox, 3)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "3"), columns=100) as terminal:
        eventually(lambda: _at_work(terminal.screen(100), *ids), "a block of three")
        *_, last_item, bar, below = terminal.screen(100).rows
        assert re.fullmatch(r"item-\d  ●◉  n2  working \d:\d\d  \d:\d\d", last_item)
        assert (bar, below) == ("[>         ] 0/3 workflows complete", "")
        sandbox.release("go-item-1")
        terminal.wait_for("1/3 workflows complete")
        rows = terminal.screen(100).rows
        assert [row for row in rows if row.startswith("[item-1] completed (")]
        assert not [row for row in rows if row.startswith("item-1 ")]
        sandbox.release("go-item-0")
        sandbox.release("go-item-2")
        assert terminal.wait() == 0
        rows = terminal.screen(100).rows
    assert not [row for row in rows if row.startswith(("item-", "[="))]
    assert rows.count("[COORDINATOR] [==========] 3/3 workflows complete") == 1
    assert not [row for row in rows if "I am item" in row or "Executing" in row]
    assert "I am item-2" in (sandbox.run_dirs()[0] / "item-2.log").read_text()


def test_a_failed_item_shows_its_last_lines(sandbox: Sandbox) -> None:
    many = "\\n".join(f"line {number}" for number in range(50))
    sandbox.write_items(
        {"id": "bad", "input": {"tasks": {"n1": f"print {many}", "n2": "raise Invalid spec format"}}}, {"id": "good"}
    )
    with Terminal(sandbox, *sandbox.arguments(*_LIVE), columns=100) as terminal:
        assert terminal.wait() == 1
        rows = terminal.screen(100).rows
    failed = rows.index("[bad] FAILED: Invalid spec format")
    assert "line 49" in "".join(rows[:failed])
    assert failed < 20


def test_the_title_is_set_as_items_end_and_given_back(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})
    with Terminal(sandbox, *sandbox.arguments(*_LIVE)) as terminal:
        assert terminal.wait() == 0
    assert terminal.drawn().count(b"\x1b[22;2t\x1b]2;agentos 0/2\x07") == 1
    assert terminal.drawn().count(b"\x1b]2;\x07\x1b[23;2t") == 1
    with Terminal(sandbox, *sandbox.arguments(*_LIVE, "--fresh"), env={"TERM": "linux"}) as terminal:
        assert terminal.wait() == 0
    assert b"\x1b]" not in terminal.drawn()


def test_ten_items_in_a_small_window_that_is_made_smaller(sandbox: Sandbox) -> None:
    ids = _write_waiting(sandbox, 10)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "10"), columns=60, rows=14) as terminal:
        terminal.wait_for("+5 more running")
        block = [row for row in terminal.screen(60).rows if row.startswith("item-")]
        assert len(block) == 5
        assert all(len(row) < 60 for row in block)
        before = len(terminal.drawn())
        terminal.resize(24, 14)
        for item_id in ids:
            sandbox.release(f"go-{item_id}")
        assert terminal.wait() == 0
        frames = terminal.drawn()[before:].decode().split("\x1b[?2026h")[2:]
    drawn = [row for frame in frames for row in frame.split("\x1b[?2026l")[0].splitlines() if "working" in row]
    assert all(len(re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", row)) < 24 for row in drawn)


def test_a_killed_coordinator_leaves_the_terminal_as_it_was(sandbox: Sandbox) -> None:
    ids = _write_waiting(sandbox, 2)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2"), columns=100) as terminal:
        eventually(lambda: _at_work(terminal.screen(100), *ids), "a block")
        terminal.process.kill()
        terminal.wait()
        drawn = terminal.drawn()
    no_process_left(sandbox.home)
    # No cursor was hidden, no mode was set that outlives a frame, and the next prompt begins a line.
    assert set(re.findall(rb"\x1b\[\?\d+[hl]", drawn)) == {b"\x1b[?2026h", b"\x1b[?2026l"}
    assert drawn.count(b"\x1b[?2026h") == drawn.count(b"\x1b[?2026l")
    assert terminal.screen(100).rows[-1] == ""


def test_suspended_without_a_word_the_block_is_drawn_anew_below_what_others_wrote(sandbox: Sandbox) -> None:
    ids = _write_waiting(sandbox, 2)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2"), columns=100) as terminal:
        eventually(lambda: _at_work(terminal.screen(100), *ids), "a block")
        terminal.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
        before = len(terminal.drawn())
        terminal.process.send_signal(signal.SIGCONT)
        eventually(lambda: b"item-0" in terminal.drawn()[before:], "another block")
        # Nothing above is taken for ours.
        assert terminal.drawn()[before:].startswith(b"\x1b[?2026h\x1b[")
        assert b"A\r\x1b[J" not in terminal.drawn()[before:].split(b"\x1b[?2026l")[0]
        for item_id in ids:
            sandbox.release(f"go-{item_id}")
        assert terminal.wait() == 0


# A shell with job control: starts the command in the foreground, and continues it when it has been stopped.
_SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    os.tcsetpgrp(0, os.getpid())
    print("suspended", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""


def test_ctrl_z_takes_the_block_away_and_fg_brings_it_back(sandbox: Sandbox) -> None:
    ids = _write_waiting(sandbox, 2)
    command = [str(AGENTOS), *sandbox.arguments("--parallel", "2")]
    with Terminal(sandbox, "-c", _SHELL, *command, columns=100, program=sys.executable) as terminal:
        eventually(lambda: _at_work(terminal.screen(100), *ids), "a block")
        terminal.type(b"\x1a")
        terminal.wait_for("suspended")
        rows = terminal.screen(100).rows
        assert not [row for row in rows if row.startswith(("item-", "[>"))]
        assert terminal.drawn().count(b"\x1b]2;\x07\x1b[23;2t") == 1
        terminal.type(b"\n")
        eventually(lambda: _at_work(terminal.screen(100), *ids), "the block again")
        for item_id in ids:
            sandbox.release(f"go-{item_id}")
        assert terminal.wait() == 0
        rows = terminal.screen(100).rows
    assert not [row for row in rows if row.startswith(("item-", "[="))]


def test_quiet_says_what_went_wrong_and_how_it_ended(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "bad", "input": {"tasks": {"n1": "raise red"}}}, {"id": "good"})
    done = sandbox.run("--output-mode", "quiet")
    assert done.code == 1
    assert done.lines[:2] == ["[bad] FAILED: red", "[COORDINATOR] 1 completed, 1 failed (bad)"]
    assert not any("Executing" in line or "workflows complete" in line for line in done.lines)


def test_a_dumb_terminal_and_ci_get_what_a_pipe_gets(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "a"},
        {"id": "b", "input": {"tasks": {"n1": "print hello", "n2": "raise red"}}},
        {"id": "c", "depends_on": ["b"]},
    )
    piped = sandbox.run("--fresh").lines
    for env in ({"TERM": "dumb"}, {"CI": "true"}):
        with Terminal(sandbox, *sandbox.arguments("--fresh"), columns=200, env=env) as terminal:
            assert terminal.wait() == 1
        drawn = terminal.text().replace("\r\n", "\n").splitlines()
        assert b"\x1b" not in terminal.drawn()
        assert [_CHANGING.sub("", line) for line in drawn] == [_CHANGING.sub("", line) for line in piped]


def test_live_where_it_cannot_be_is_a_stream_and_says_so(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})
    done = sandbox.run(*_LIVE)
    [warning] = [line for line in done.lines if "Warning" in line]
    assert warning.startswith("[COORDINATOR] Warning: --output-mode live needs a terminal with UTF-8 and at least 10")
    assert "[a] >>> Executing: n1" in done.lines
    with Terminal(sandbox, *sandbox.arguments("--fresh"), columns=100, rows=9) as terminal:
        assert terminal.wait() == 0
    assert ">>> Executing: n1" in terminal.text()


def test_one_item_is_listened_to(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"tasks": {"n1": "print hello"}}})
    with Terminal(sandbox, *sandbox.arguments(), columns=100) as terminal:
        assert terminal.wait() == 0
    assert "hello" in terminal.text()
