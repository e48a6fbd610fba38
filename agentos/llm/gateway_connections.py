"""A worker's connections to the gateway of its run, kept for its next calls.

An HTTP client for one server that is ours and near: a request leaves in one piece, and nothing is looked up for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import h11
import httpx2

_CONNECT_SECONDS = 10.0
_READ_BYTES = 64 * 1024
_MOST_HEAD_BYTES = 100 * 1024
"""What the gateway takes from providers."""


RequestHeaders = list[tuple[str, str]]


class GatewayConnections:
    """Used on one event loop. Errors are those of httpx2: SDKs expect them."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []

    @property
    def idle_count(self) -> int:
        """Connections that could carry the next call."""
        return sum(connection.is_open for connection in self._idle)

    async def send(self, address: str, request: httpx2.Request, headers: RequestHeaders) -> httpx2.Response:
        """The reply as it begins to come, to a request that carries these headers and not its own."""
        connection = self._kept(address) or await _opened(address)
        try:
            head = await connection.ask(request.method, headers, await request.aread())
        except BaseException:
            # The gateway ends the call when its connection ends.
            connection.close()
            raise
        return httpx2.Response(
            head.status_code, headers=list(head.headers), stream=_Body(connection, self._idle), request=request
        )

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self, address: str) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.address == address:
                return connection
            connection.close()
        return None


class _Connection:
    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    @property
    def is_open(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def ask(self, method: str, headers: RequestHeaders, body: bytes) -> h11.Response:
        named = [("host", urlsplit(self.address).netloc), *headers]
        raw = [(name.encode(), value.encode()) for name, value in named]
        head = h11.Request(method=method, target="/", headers=raw)
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        with _errors_of_httpx():
            self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
            await self._writer.drain()
            while not isinstance(event := await self._next_event(), h11.Response):
                if not isinstance(event, h11.InformationalResponse):
                    raise httpx2.RemoteProtocolError("the gateway closed the connection")
            return event

    async def body(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            while isinstance(event := await self._next_event(), h11.Data):
                yield bytes(event.data)

    def begin_again(self) -> bool:
        """Whether the exchange is over on both sides, so that another one can follow."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self._writer.close()

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event


class _Body(httpx2.AsyncByteStream):
    """Read to its end, its connection serves the next call."""

    def __init__(self, connection: _Connection, idle: list[_Connection]) -> None:
        self._connection: _Connection | None = connection
        self._idle = idle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._connection is not None
        async for piece in self._connection.body():
            yield piece

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.begin_again():
            self._idle.append(connection)
        else:
            connection.close()


async def _opened(address: str) -> _Connection:
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout("no connection") from error
    except OSError as error:
        raise httpx2.ConnectError("no connection") from error
    return _Connection(address, reader, writer)


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except h11.RemoteProtocolError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error
    except OSError as error:
        raise httpx2.ReadError("the connection to the gateway was lost") from error
