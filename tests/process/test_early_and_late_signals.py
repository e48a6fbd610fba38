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

def wait_and_fail(place):
    try:
        wait_at(place)
    except KeyboardInterrupt:
        raise SyntaxError("cannot load what the compiler needs") from None

WAYS = {"in a destructor": lambda _: Waits(), "in the compiler": wait_and_fail}

class HoldUp:
    @staticmethod
    def find_spec(name, *_):
        if name == os.environ["HOLD_UP"]:
            WAYS.get(os.environ.get("HOLD_UP_WAY"), wait_at)(name)

class Signals:
    def __init__(self, number):
        self.number = number

    def __del__(self, kill=os.kill, pid=os.getpid()):
        kill(pid, self.number)

if "LAST_SIGNAL" in os.environ:
    sys.last_of_all = Signals(int(os.environ["LAST_SIGNAL"]))
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


def loaded_first(sandbox: Sandbox) -> dict[str, str]:
    """The environment in which the interpreter loads HELD_UP."""
    (sandbox.root / "sitecustomize.py").write_text(HELD_UP)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(sandbox.root), os.environ.get("PYTHONPATH"))))}


def signalled_at(
    sandbox: Sandbox, place: str, number: signal.Signals, words: Sequence[Path | str], **more: str
) -> Finished:
    held_at = sandbox.root / "held-at"
    environment = {**loaded_first(sandbox), "HOLD_UP": place, "HELD_AT": str(held_at), **more}
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_interpreter_is_taken_down_changes_no_exit_code(
    sandbox: Sandbox, number: signal.Signals
) -> None:
    """Python has forgotten every handler by then, and the kernel would end the process its own way."""
    ended = sandbox.command("runs", env={**loaded_first(sandbox), "LAST_SIGNAL": str(int(number))})

    assert (ended.code, ended.stderr.strip()) == (0, "")


@pytest.mark.parametrize("program", LATER_IMPORTS)
def test_a_signal_while_a_program_loads_is_quiet(sandbox: Sandbox, program: str) -> None:
    words, place = LATER_IMPORTS[program]
    ended = signalled_at(sandbox, place, signal.SIGINT, words)

    assert ended.code == 130
    assert ended.stderr.strip() == ""


@pytest.mark.parametrize("way", ["in a destructor", "in the compiler"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_where_python_drops_or_replaces_what_is_raised(
    sandbox: Sandbox, number: signal.Signals, way: str
) -> None:
    ended = signalled_at(sandbox, "agentos.cli.run", number, [AGENTOS, "run", "--help"], HOLD_UP_WAY=way)

    assert ended.code == 130
    assert ended.stderr.strip() == ""
