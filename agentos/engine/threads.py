"""Plain callables on threads, for callers that bring their own function. A thread cannot be killed: a stop drains."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentos.engine.loop import Loop
from agentos.engine.schedule import Action, Ending, Finish, Kill, Retry, Schedule, Skip, Start, Stop
from agentos.engine.stopping import GRACE
from agentos.events import ItemEnded, ItemStarted, Listener, StopRequested
from agentos.outcomes import COMPLETED, FAILED, INTERRUPTED


class NotCalledError(Exception):
    """Raised by a call to say that it has done nothing, because the run is stopping: its item is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended: with an error's type, message and traceback, or well."""

    item_id: str
    seconds: float = 0.0
    error_type: str = ""
    message: str = ""
    traceback: str = ""

    @property
    def is_success(self) -> bool:
        return not self.error_type


class ThreadRun:
    """One call per item, under the schedule and the loop of every run."""

    def __init__(self, calls: Mapping[str, Callable[[], object]], parallel: int, emit: Listener) -> None:
        self._calls = calls
        self._emit = emit
        self._loop = Loop()
        self._schedule = Schedule(list(calls), limit=parallel)
        self._started: dict[str, float] = {}
        self.ends: list[CallEnd] = []
        """Calls that were made, in the order in which they ended."""

    @property
    def is_stopping(self) -> bool:
        return self._schedule.is_stopping

    @property
    def left(self) -> list[str]:
        """Items whose calls were not made, or had not ended when nobody waited any longer."""
        return list(self._schedule.left)

    def execute(self) -> None:
        try:
            self._loop.post(lambda: self._perform(self._schedule.begin()))
            self._loop.run()
        finally:
            self._loop.close()

    def request_stop(self, reason: str, *, at_once: bool = False, again_at_once: bool = False) -> None:
        """From any thread. Nothing new starts; with `at_once`, or the second time, nobody waits for running calls."""
        self._loop.post(lambda: self._stop(reason, at_once=at_once, again_at_once=again_at_once))

    def _stop(self, reason: str, *, at_once: bool, again_at_once: bool) -> None:
        # Decided here and not where it was asked for: of two signals in a row only one is the first.
        at_once = at_once or (again_at_once and self.is_stopping)
        if self.is_stopping and not at_once:
            return
        self._emit(StopRequested(reason=reason, at_once=at_once))
        self._perform(self._schedule.stop())
        # Threads cannot be ended: calls that outlive the grace period are left behind, and their items undone.
        self._loop.after(0.0 if at_once else GRACE.give_up_after, self._loop.stop)

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Start(item_id=item_id, attempt=attempt):
                    self._start(item_id, attempt)
                case Finish():
                    self._loop.stop()
                case Stop() | Kill() | Skip() | Retry():
                    pass  # Running calls drain; callables have neither dependencies nor retries.

    def _start(self, item_id: str, attempt: int) -> None:
        self._started[item_id] = self._loop.now()
        self._emit(ItemStarted(item_id=item_id, attempt=attempt, pid=os.getpid()))
        # A daemon, so that a call that never returns does not keep the interpreter after a stop.
        threading.Thread(target=self._call, args=(item_id,), name=f"agentos-{item_id}", daemon=True).start()

    def _call(self, item_id: str) -> None:
        """On the item's thread."""
        end = CallEnd(item_id=item_id)
        try:
            self._calls[item_id]()
        except NotCalledError:
            self._loop.post(lambda: self._not_called(item_id))
            return
        except BaseException as error:
            # SystemExit too: an item never takes the run with it.
            end = _failed(item_id, error)
        self._loop.post(lambda: self._ended(end))

    def _not_called(self, item_id: str) -> None:
        seconds = self._loop.now() - self._started[item_id]
        self._emit(ItemEnded(item_id=item_id, outcome=INTERRUPTED, seconds=seconds, reason="stopped"))
        self._perform(self._schedule.ended(item_id, Ending.INTERRUPTED))

    def _ended(self, end: CallEnd) -> None:
        seconds = self._loop.now() - self._started[end.item_id]
        self.ends.append(replace(end, seconds=seconds))
        self._emit(
            ItemEnded(
                item_id=end.item_id,
                outcome=COMPLETED if end.is_success else FAILED,
                seconds=seconds,
                reason=end.message,
                error_type=end.error_type,
                traceback=end.traceback,
            )
        )
        self._perform(self._schedule.ended(end.item_id, Ending.DONE if end.is_success else Ending.NOT_DONE))


def _failed(item_id: str, error: BaseException) -> CallEnd:
    name = type(error).__name__
    try:
        message, text = str(error) or name, "".join(traceback.format_exception(error))
    except Exception:
        # How an error shows itself is the caller's code.
        message, text = f"{name} (its text cannot be shown)", "".join(traceback.format_tb(error.__traceback__))
    return CallEnd(item_id=item_id, error_type=name, message=message, traceback=text)
