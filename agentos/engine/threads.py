"""Plain callables on threads, for callers that bring their own function. A thread cannot be killed: a stop drains."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended: with an error's type, message and traceback, or well."""

    error_type: str = ""
    message: str = ""
    traceback: str = ""

    @property
    def is_success(self) -> bool:
        return not self.error_type


def start_call(name: str, call: Callable[[], None], on_end: Callable[[CallEnd], None]) -> None:
    """Run `call` on a thread of its own; `on_end` is called from that thread."""

    def target() -> None:
        try:
            call()
            end = CallEnd()
        except BaseException as error:
            # SystemExit too: an item never takes the run with it.
            text = "".join(traceback.format_exception(error))
            end = CallEnd(type(error).__name__, str(error) or type(error).__name__, text)
        on_end(end)

    # A daemon, so that a call that never returns does not keep the interpreter after a stop.
    threading.Thread(target=target, name=f"agentos-{name}", daemon=True).start()
