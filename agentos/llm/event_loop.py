"""The event loop that model calls of this process run on: one thread, so that connections are reused across calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentos.errors import CallCancelledError
from agentos.llm.cancellation import Cancellation

T = TypeVar("T")


class CallLoop:
    """An event loop in a daemon thread, started by its first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T], cancellation: Cancellation) -> T:
        """The coroutine's result. However this ends early, by a signal too, the coroutine is cancelled."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        with cancellation.calling(future.cancel):
            try:
                return future.result()
            except concurrent.futures.CancelledError:
                raise CallCancelledError from None
            finally:
                future.cancel()

    def stop(self, last: Coroutine[Any, Any, object]) -> None:
        """Run `last` on the loop if it is running, then end its thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_finish(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="agentos-llm", daemon=True)
                self._thread.start()
            return self._loop


async def _finish(last: Coroutine[Any, Any, object]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last


call_loop = CallLoop()


def _forget_in_child() -> None:
    """A forked child has no copy of the thread: its first call starts its own."""
    global call_loop
    call_loop = CallLoop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
