"""Blocking work in a thread, awaited by an event loop. Apart from the rest because importing asyncio is slow."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread of its own: a shared executor would fill up with calls that wait for a key.

    When the caller is cancelled, the work continues and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(resolve: Callable[[], None]) -> None:
        if not done.done():
            resolve()

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as raised:
            error = raised
            tell(loop, lambda: settle(lambda: done.set_exception(error)))
        else:
            tell(loop, lambda: settle(lambda: done.set_result(result)))

    threading.Thread(target=run, name="agentos-llm-call", daemon=True).start()
    return await done


def tell(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    """Have the loop act, from any thread."""
    # A loop that is closed has nobody left who waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
