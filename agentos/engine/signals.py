"""Signals around a run: they become messages in the loop's inbox and are put back as they were afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from agentos.processes.stop_signals import stop_numbers

_HANG_UP = getattr(signal, "SIGHUP", None)


@contextmanager
def stops_deferred() -> Iterator[None]:
    """A stop signal that comes inside the block is heard right after it: for steps that must be undone together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    # Not by blocking them: another thread would take them, and Python handles them here all the same.
    before = {number: signal.getsignal(number) for number in stop_numbers()}
    listened = [number for number, handler in before.items() if handler not in (None, signal.SIG_IGN)]
    for number in listened:
        signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield
    finally:
        for number in listened:
            signal.signal(number, before[number])
    if heard:
        signal.raise_signal(heard[0])


@contextmanager
def signals_handled(
    on_stop: Callable[[int], None],
    on_suspend: Callable[[], None] | None = None,
    on_continue: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Call `on_stop(signal number)` for each stop signal. Off the main thread signals are not ours: does nothing.

    `on_continue` is called after any suspension, also one that no handler sees (SIGSTOP).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        on_stop(number)

    handlers: dict[int, Any] = dict.fromkeys(stop_numbers(), stop)
    if on_suspend is not None and hasattr(signal, "SIGTSTP"):
        handlers[signal.SIGTSTP] = lambda _number, _frame: on_suspend()
    if on_continue is not None and hasattr(signal, "SIGCONT"):
        handlers[signal.SIGCONT] = lambda _number, _frame: on_continue()
    before = {number: signal.getsignal(number) for number in handlers}
    if _HANG_UP is not None and before.get(_HANG_UP) is signal.SIG_IGN:
        del before[_HANG_UP]  # nohup: the user wants the run to outlive the terminal.
    for number in before:
        signal.signal(number, handlers[number])
    # Whoever started us may have blocked them, by mistake or for a moment of their own.
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
