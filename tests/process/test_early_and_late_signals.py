"""A signal before a command has begun, or after it is over: quiet, and the exit code says what happened."""

from __future__ import annotations

import os
import signal

import pytest
from harness import Sandbox, eventually

HELD_UP = """
import atexit, os, pathlib, sys, time

def wait_at(place):
    pathlib.Path(os.environ["HELD_AT"]).write_text(place)
    while True:
        time.sleep(0.01)

class HoldUp:
    @staticmethod
    def find_spec(name, *_):
        if name == "agentos.cli.run":
            wait_at("start")

if os.environ.get("HOLD_UP") == "start":
    sys.meta_path.insert(0, HoldUp)
elif os.environ.get("HOLD_UP") == "exit":
    atexit.register(wait_at, "exit")
"""
"""Loaded by the interpreter itself, before the command: holds it up where a test wants a signal to find it."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("place", "exit_code"), [("start", 130), ("exit", 0)])
def test_a_signal_before_or_after_the_command_itself_is_quiet(
    sandbox: Sandbox, place: str, exit_code: int, number: signal.Signals
) -> None:
    (sandbox.root / "sitecustomize.py").write_text(HELD_UP)
    held_at = sandbox.root / "held-at"
    search = os.pathsep.join(filter(None, (str(sandbox.root), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": search, "HOLD_UP": place, "HELD_AT": str(held_at)}
    words = ("run", "--help") if place == "start" else ("runs",)
    command = sandbox.start_command(*words, env=environment)
    eventually(lambda: held_at.exists() and held_at.read_text() == place, f"the command at its {place}")
    command.kill(number)
    ended = command.wait()

    assert ended.code == exit_code
    assert ended.stderr.strip() == ""
