"""Answers piece by piece: the call runs in a thread of its own, and its text is handed on as it comes."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Unpack

from agentos.llm.calls import CallOptions, prepared
from agentos.llm.cancellation import Cancellation
from agentos.llm.conversation import Prompt
from agentos.llm.in_thread import tell
from agentos.llm.types import Reply

_Event = str | Reply[None] | BaseException
"""A piece of text, and at the end the whole reply or why there is none."""


class _Stream:
    """What both kinds of streams know of their call."""

    def __init__(self, cancellation: Cancellation) -> None:
        self._cancellation = cancellation
        self._reply: Reply[None] | None = None

    @property
    def reply(self) -> Reply[None]:
        """The whole reply, once the last piece has come."""
        if self._reply is None:
            raise RuntimeError("The stream is not over: read it to its end first.")
        return self._reply

    def close(self) -> None:
        """Give the call up if it is not over; its key goes back. Leaving the loop early does the same."""
        if self._reply is None:
            self._cancellation.request()

    def _is_piece(self, event: _Event) -> bool:
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, Reply):
            self._reply = event
        return isinstance(event, str)


class ReplyStream(_Stream):
    """The pieces of an answer, for a `for` loop."""

    def __init__(self, cancellation: Cancellation, take: Callable[[], _Event]) -> None:
        super().__init__(cancellation)
        self._take = take

    def __iter__(self) -> Iterator[str]:
        try:
            while self._is_piece(event := self._take()):
                yield str(event)
        finally:
            self.close()


class AsyncReplyStream(_Stream):
    """The pieces of an answer, for an `async for` loop."""

    def __init__(self, cancellation: Cancellation, events: asyncio.Queue[_Event]) -> None:
        super().__init__(cancellation)
        self._events = events

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while self._is_piece(event := await self._events.get()):
                yield str(event)
        finally:
            self.close()


def stream(prompt: Prompt, **options: Unpack[CallOptions]) -> ReplyStream:
    """Ask a model like `generate`, and read its answer piece by piece.

    What fails before the first piece is tried again as `generate` does; after it, the loop raises.
    """
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
    cancellation = Cancellation()
    _start(prompt, options, cancellation, events.put)
    return ReplyStream(cancellation, events.get)


def astream(prompt: Prompt, **options: Unpack[CallOptions]) -> AsyncReplyStream:
    """`stream` for async code. To be called inside of an event loop."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[_Event] = asyncio.Queue()
    cancellation = Cancellation()
    _start(prompt, options, cancellation, lambda event: tell(loop, lambda: events.put_nowait(event)))
    return AsyncReplyStream(cancellation, events)


def _start(prompt: Prompt, options: CallOptions, cancellation: Cancellation, put: Callable[[_Event], object]) -> None:
    with_text: CallOptions = {**options, "on_text": put}
    ask = prepared(prompt, None, **with_text)
    context = contextvars.copy_context()

    def run() -> None:
        try:
            put(context.run(ask, cancellation))
        except BaseException as error:
            put(error)

    threading.Thread(target=run, name="agentos-llm-stream", daemon=True).start()
