"""Stop signals of a program, from its first line to its last: quiet, and with an exit code that says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_INTERRUPTED = 130
_NOT_OURS = (signal.SIG_IGN, None)
"""Ignored, as with nohup, or taken by somebody who is not Python."""


def stop_numbers() -> list[signal.Signals]:
    """Those that this platform has."""
    return [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]


def as_program(command: Callable[[], int]) -> int:
    """Run the command that this program consists of, and return its exit code: 130 when a signal ended it."""
    exit_code = _INTERRUPTED
    try:
        _raise_interrupts()
        exit_code = command()
    except KeyboardInterrupt:
        pass  # It came where the command does not listen yet, or no longer.
    _leave_at_once(exit_code)
    return exit_code


def _raise_interrupts() -> None:
    """From here on every stop signal is a Ctrl+C: what there is so far is undone."""
    for number in stop_numbers():
        if signal.getsignal(number) not in _NOT_OURS:
            signal.signal(number, _interrupt)


def _leave_at_once(exit_code: int) -> None:
    """The command is over: a signal cuts the interpreter's own exit short and changes nothing else."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        os._exit(exit_code)

    for number in stop_numbers():
        if signal.getsignal(number) not in _NOT_OURS:
            signal.signal(number, leave)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
