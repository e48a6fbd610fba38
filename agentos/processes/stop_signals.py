"""Stop signals of a program, from its first line to its last: quiet, and with an exit code that says so."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # A program's first import: `typing` would take longer than all of this.
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn

else:
    # What `signal` wraps in enumerations, which take as long to load as the interpreter itself. Until a program has
    # come here, a signal ends it as the kernel does.
    import _signal as signal

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_INTERRUPTED = 130
_NOT_OURS = (signal.SIG_IGN, None)
"""Ignored, as with nohup, or taken by somebody who is not Python."""
_AGAIN_AFTER_SECONDS = 0.001


class _Stopped(KeyboardInterrupt):
    """A stop signal, raised with its number where no run listens to signals itself."""


def stop_numbers() -> list[int]:
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


def leave_when_stopped() -> None:
    """For a script that imports much before its `as_program`: until then a stop signal ends it, with nothing said."""
    _leave_at_once(_INTERRUPTED)


def _raise_interrupts() -> None:
    """From here on every stop signal is a Ctrl+C: what there is so far is undone."""
    for number in stop_numbers():
        if signal.getsignal(number) not in _NOT_OURS:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _send_again


def _leave_at_once(exit_code: int) -> None:
    """Nothing runs that is to be undone: a signal ends the process here, with this exit code."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        os._exit(exit_code)

    for number in stop_numbers():
        if signal.getsignal(number) not in _NOT_OURS:
            signal.signal(number, leave)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped(number)


def _send_again(lost: UnraisableHookArgs) -> None:
    """Python drops what destructors and callbacks raise, those of its imports too: the stop comes once more."""
    if not isinstance(lost.exc_value, _Stopped):
        sys.__unraisablehook__(lost)
        return
    (number,) = lost.exc_value.args
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_SECONDS)
