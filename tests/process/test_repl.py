"""The prompt: the same commands, errors that do not end it, runs that can be stopped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually
from terminal import Terminal
from workshop import Workshop, workshop

GRAPH = "--graph graphs/streams.py:graph"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with workshop(tmp_path, monkeypatch) as made:
        yield made


def wait_for_prompt(terminal: Terminal, after: str) -> None:
    """Until the prompt is the last thing drawn, after these words. A key typed earlier would go elsewhere."""
    eventually(lambda: after in terminal.text() and terminal.text().endswith("agentos> "), f"a prompt after {after}")


def test_piped_lines_are_commands_and_the_last_exit_code_counts(shop: Workshop) -> None:
    finished = shop.converse(
        "/ws new a 'n1: print from a'",
        '/ws new b "n2: raise it broke"  # a remark',
        "",
        f"/ws run a b {GRAPH}",
        "/ws list",
        "/runs",
    )
    assert finished.code == 0, finished.stderr
    assert "[a] from a" in finished.lines
    assert "[b] FAILED: it broke" in finished.stdout
    rows = [line.split()[:2] for line in finished.lines]
    assert ["a", "completed"] in rows
    assert ["b", "failed"] in rows
    assert "agentos> " not in finished.stdout
    assert shop.states() == {"a": "completed", "b": "failed"}


def test_an_error_is_told_and_the_next_line_comes(shop: Workshop) -> None:
    shop.make(a="x")
    finished = shop.converse(
        "/frobnicate",
        "/ws",
        "/ws run nope",
        "/ws run a --max-concurrent zero",
        "/ws 'open",
        "/repl",
        "/ws list",
    )
    assert finished.code == 0
    for words in ("no command /frobnicate", "no workstream 'nope'", "not a whole number", "check the quotes"):
        assert words in finished.stderr
    assert finished.lines[-1].startswith("a ")
    assert shop.converse("/ws list", "/ws status nope").code == 2


def test_run_all_help_and_quit(shop: Workshop) -> None:
    shop.make(a="x", b="x")
    finished = shop.converse("/help", f"/ws run-all {GRAPH}", "/quit", "/ws new never 'not reached'")
    assert finished.code == 0
    assert "/ws " in finished.stdout
    assert "/quit" in finished.stdout
    assert shop.states() == {"a": "completed", "b": "completed"}


def test_how_to_resume_is_told_as_a_command_of_its_own(shop: Workshop) -> None:
    shop.make(a="n2: raise no")
    finished = shop.converse(f"/ws run a {GRAPH}")
    assert finished.code == 1
    assert "Resume with: agentos ws run a --graph graphs/streams.py:graph" in finished.stdout


def test_ctrl_c_stops_the_run_and_comes_back_to_the_prompt(shop: Workshop) -> None:
    shop.make(a="n2: wait go")
    with Terminal(shop, "repl", columns=160) as terminal:
        terminal.wait_for("agentos> ")
        terminal.type(f"/ws run a {GRAPH}\r".encode())
        shop.wait_for_note("a n2 start")
        terminal.type(b"\x03")
        terminal.wait_for("Shutting down")
        wait_for_prompt(terminal, "interrupted")
        terminal.type(b"half a line")
        terminal.wait_for("half a line")
        terminal.type(b"\x03")
        eventually(lambda: terminal.text().rpartition("half a line")[2].endswith("agentos> "), "a new prompt")
        shop.release("go")
        terminal.type(f"/ws run a {GRAPH}\r".encode())
        wait_for_prompt(terminal, "1 completed")
        terminal.type(b"\x04")
        assert terminal.wait() == 0
    assert shop.notes().count("a n1 start") == 1
    assert shop.states() == {"a": "completed"}


def test_tab_completes_and_lines_are_remembered_over_sessions(shop: Workshop) -> None:
    shop.make(rate_limit="x")
    with Terminal(shop, "repl", columns=160) as terminal:
        terminal.wait_for("agentos> ")
        terminal.type(b"/ws sta\trate\t\r")
        wait_for_prompt(terminal, "agentos/rate-limit at")
        terminal.type(b"/quit\r")
        assert terminal.wait() == 0
    history = shop.home / "repl_history"
    assert "/ws status rate-limit" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
    with Terminal(shop, "repl", columns=160) as terminal:
        terminal.wait_for("agentos> ")
        terminal.type(b"\x1b[A\x1b[A\r")
        terminal.wait_for("agentos/rate-limit at")


def test_the_prompt_needs_no_engine_until_something_runs(shop: Workshop) -> None:
    probe = "import sys; from agentos.cli.main import main; main(['repl']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", probe],
        input="/help\n/ws list\n",
        cwd=shop.project,
        env=shop.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "'langgraph'" not in done.stdout
    assert "No workstreams" in done.stdout
