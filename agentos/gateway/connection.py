"""One client's connection: requests in, answers out, in bounded sizes and times.

h11 reads and writes the protocol; nothing here looks into bytes of HTTP by itself.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from contextlib import suppress

import h11

from agentos.gateway import openai
from agentos.gateway.dialect import Dialect, Headers, encoded
from agentos.gateway.routing import Received

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Above what any provider takes."""
MOST_OF_STRANGERS_BYTES = 1024 * 1024
"""Until it is known whose request it is: everybody on this machine can connect."""
MOST_HEAD_BYTES = 64 * 1024
PIECE_SECONDS = 60.0
"""For the next piece of a request that has begun, and for the client to take the next one of its answer."""
IDLE_SECONDS = 600.0
"""For the next request."""
CHUNK_BYTES = 64 * 1024

NO_RETRY = ("x-should-retry", "false")
"""What the providers' own SDKs heed: whatever could be tried again has been."""

Serve = Callable[[Received, "ClientReply"], Awaitable[None]]
Knows = Callable[[Received, int], Awaitable[bool]]
"""Whether somebody of ours sends this, of which only the head is there, from this port."""


class _Refused(Exception):
    """A request that is not read to its end."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientReply:
    """The client's side of one request."""

    def __init__(self, http: h11.Connection, writer: asyncio.StreamWriter, method: str = "") -> None:
        self._http = http
        self._writer = writer
        self._is_head = method == "HEAD"
        self._unsent = b""
        peer = writer.get_extra_info("peername")
        self.peer_port = peer[1] if isinstance(peer, tuple) else 0
        self.has_begun = False

    async def start(self, status: int, headers: Headers) -> None:
        """Its head leaves with what follows it: of two small pieces, each would wake the client."""
        self.has_begun = True
        raw = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers]
        self._unsent += self._http.send(h11.Response(status_code=status, headers=raw, reason=_reason(status))) or b""

    async def write(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        await self._send(h11.EndOfMessage())

    def cut_off(self) -> None:
        """End the connection after what was written: the client sees that the answer has not come to its end."""
        self._writer.write(self._unsent)
        self._writer.close()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """In one piece."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        self._unsent += self._http.send(h11.Data(data=b"" if self._is_head else body)) or b""
        await self.finish()

    async def error(self, dialect: Dialect, status: int, message: str) -> None:
        """In the words of the client's protocol."""
        headers = [("content-type", "application/json"), NO_RETRY]
        await self.whole(status, headers, encoded(dialect.error(status, message)))

    async def _send(self, event: h11.Event) -> None:
        data, self._unsent = self._unsent + (self._http.send(event) or b""), b""
        if not data:
            return
        self._writer.write(data)
        try:
            async with asyncio.timeout(PIECE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            # Its call holds a key that others wait for.
            self._writer.transport.abort()
            raise ConnectionAbortedError("the client takes nothing") from None


class Connection:
    """Serves one request after another. A client that goes away takes the call with it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve: Serve, knows: Knows
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._knows = knows
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self.is_idle = True
        """No request of it is being answered."""

    async def serve(self) -> None:
        while True:
            try:
                received = await self._next_request()
            except h11.RemoteProtocolError as error:
                return await self._refuse(error.error_status_hint, "The request is not valid HTTP.")
            except _Refused as error:
                return await self._refuse(error.status, str(error))
            if received is None or not await self._answer(received):
                return
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next_request(self) -> Received | None:
        """None when the client wants nothing more."""
        head: h11.Request | None = None
        body = bytearray()
        most_bytes = MOST_OF_STRANGERS_BYTES
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    await self._read(IDLE_SECONDS if head is None else PIECE_SECONDS)
                case h11.Request() as head:
                    _refuse_two_lengths(head)
                case h11.Data(data=data):
                    body += data
                    if len(body) > most_bytes:
                        most_bytes = await self._most_bytes(head)
                    if len(body) > most_bytes:
                        raise _Refused(413, f"The request is longer than {most_bytes >> 20} MB.")
                case h11.EndOfMessage() if head is not None:
                    return _received(head, bytes(body))
                case _:
                    return None

    async def _most_bytes(self, head: h11.Request | None) -> int:
        port = ClientReply(self._http, self._writer).peer_port
        is_known = head is not None and await self._knows(_received(head, b""), port)
        return MOST_BODY_BYTES if is_known else MOST_OF_STRANGERS_BYTES

    async def _read(self, seconds: float) -> None:
        if self._http.they_are_waiting_for_100_continue:
            self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        async with asyncio.timeout(seconds):
            self._http.receive_data(await self._reader.read(CHUNK_BYTES))

    async def _answer(self, received: Received) -> bool:
        """Whether the client is there for more."""
        answering = asyncio.ensure_future(
            self._serve(received, ClientReply(self._http, self._writer, received.method))
        )
        leaving = asyncio.ensure_future(self._reader.read(CHUNK_BYTES))
        self.is_idle = False
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and _read_by(leaving):
                await asyncio.wait((answering,))  # More is there already: its next request.
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            self.is_idle = True
        # Asked last: something may have come at any moment until here.
        if more := _read_by(leaving):
            self._http.receive_data(more)
        return not answering.cancelled() and answering.result() is None

    async def _refuse(self, status: int, message: str) -> None:
        with suppress(h11.LocalProtocolError):
            await ClientReply(self._http, self._writer).error(openai.DIALECT, status, message)


def _reason(status: int) -> bytes:
    """Some clients show it."""
    return http.client.responses.get(status, "").encode()


def _refuse_two_lengths(head: h11.Request) -> None:
    """Where it ends is told in two ways: one of them hides a request in its body."""
    names = {name for name, _ in head.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise _Refused(400, "The request states its length twice.")


def _read_by(reading: asyncio.Future[bytes]) -> bytes:
    """What it has read; nothing if it has not, or if there will be nothing."""
    return b"" if reading.cancelled() or reading.exception() else reading.result()


def _received(head: h11.Request, body: bytes) -> Received:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers]
    return Received(head.method.decode("ascii"), head.target.decode("latin-1"), headers, body)
