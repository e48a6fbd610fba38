"""Stop signals of a program, from its first line to its last: quiet, and with an exit code that says so."""

from __future__ import annotations

import atexit
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

    was_raised = False
    """Some code, the compiler's for one, raises an error of its own in its place."""


def stop_numbers() -> list[int]:
    """Those that this platform has."""
    return [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]


def as_program(command: Callable[[], int]) -> NoReturn:
    """Run the command that this program consists of, and exit with its code: 130 when a signal ended it."""
    exit_code = _INTERRUPTED
    try:
        _raise_interrupts()
        exit_code = command()
    except KeyboardInterrupt:
        pass  # It came where the command does not listen yet, or no longer.
    except Exception:
        if not _Stopped.was_raised:
            raise
    _leave_at_once(exit_code)
    _exit(exit_code)


def _exit(exit_code: int) -> NoReturn:
    """As the interpreter does, but for its last steps: in those a signal would end the process as the kernel does."""
    from contextlib import suppress  # noqa: PLC0415  Loaded by now, and too long to load for a first import.

    if threading := sys.modules.get("threading"):
        threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # None, closed or full: the exit code is the command's.
            stream.flush()
    os._exit(exit_code)


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
    _Stopped.was_raised = True
    raise _Stopped(number)


def _send_again(lost: UnraisableHookArgs) -> None:
    """Python drops what destructors and callbacks raise, those of its imports too: the stop comes once more."""
    if not isinstance(lost.exc_value, _Stopped):
        sys.__unraisablehook__(lost)
        return
    (number,) = lost.exc_value.args
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_SECONDS)
