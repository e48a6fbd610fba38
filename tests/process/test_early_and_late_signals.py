"""A signal before a command has begun, or after it is over: quiet, and the exit code says what happened."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import AGENTOS, Finished, Sandbox, eventually

HELD_UP = """
import atexit, os, pathlib, sys, time

def wait_at(place):
    pathlib.Path(os.environ["HELD_AT"]).write_text(place)
    while True:
        time.sleep(0.01)

class Waits:
    def __del__(self):
        wait_at(os.environ["HOLD_UP"])

class HoldUp:
    @staticmethod
    def find_spec(name, *_):
        if name == os.environ["HOLD_UP"]:
            Waits() if "HOLD_UP_DESTRUCTOR" in os.environ else wait_at(name)

if "." in os.environ.get("HOLD_UP", ""):
    sys.meta_path.insert(0, HoldUp)
elif os.environ.get("HOLD_UP") == "exit":
    atexit.register(wait_at, "exit")
"""
"""Loaded by the interpreter itself, before the command: holds it up where a test wants a signal to find it."""


BIN = AGENTOS.parent
TOOL = Path(__file__).parents[2] / "tools" / "run_requirements_workflow.py"
LATER_IMPORTS = {
    "agentos": ([AGENTOS, "run", "--help"], "agentos.cli.parsing"),
    "lld-workflow": ([BIN / "lld-workflow", "--help"], "agentos.cli.documents"),
    "issue-workflow": ([BIN / "issue-workflow", "--help"], "agentos.cli.documents"),
    "tool": ([sys.executable, TOOL, "--help"], "agentos.cli.lld"),
}
"""Of each program: how it starts, and an import that is the first, or almost, of those that take their time."""


def signalled_at(
    sandbox: Sandbox, place: str, number: signal.Signals, words: Sequence[Path | str], **more: str
) -> Finished:
    (sandbox.root / "sitecustomize.py").write_text(HELD_UP)
    held_at = sandbox.root / "held-at"
    search = os.pathsep.join(filter(None, (str(sandbox.root), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": search, "HOLD_UP": place, "HELD_AT": str(held_at), **more}
    command = sandbox.start_command(*map(str, words[1:]), program=Path(words[0]), env=environment)
    eventually(lambda: held_at.exists() and held_at.read_text() == place, f"the command at {place}")
    command.kill(number)
    return command.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("place", "words", "exit_code"), [("agentos.cli.run", ("run", "--help"), 130), ("exit", ("runs",), 0)]
)
def test_a_signal_before_or_after_the_command_itself_is_quiet(
    sandbox: Sandbox, place: str, words: Sequence[str], exit_code: int, number: signal.Signals
) -> None:
    ended = signalled_at(sandbox, place, number, [AGENTOS, *words])

    assert ended.code == exit_code
    assert ended.stderr.strip() == ""


@pytest.mark.parametrize("program", LATER_IMPORTS)
def test_a_signal_while_a_program_loads_is_quiet(sandbox: Sandbox, program: str) -> None:
    words, place = LATER_IMPORTS[program]
    ended = signalled_at(sandbox, place, signal.SIGINT, words)

    assert ended.code == 130
    assert ended.stderr.strip() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_where_python_drops_what_is_raised(sandbox: Sandbox, number: signal.Signals) -> None:
    ended = signalled_at(sandbox, "agentos.cli.run", number, [AGENTOS, "run", "--help"], HOLD_UP_DESTRUCTOR="1")

    assert ended.code == 130
    assert ended.stderr.strip() == ""
