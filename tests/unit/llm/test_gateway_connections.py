"""How a worker's requests reach the gateway of its run: in one piece, over connections that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agentos.llm.gateway_connections import GatewayConnections

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def gateway(serve: Serve) -> AsyncIterator[str]:
    serving: set[asyncio.Task[Any]] = set()

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await serve(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*serving)


def request(address: str) -> tuple[httpx2.Request, list[tuple[str, str]]]:
    made = httpx2.Request("POST", address, content=b'{"prompt": "hi"}')
    return made, [("content-length", made.headers["content-length"])]


def test_requests_leave_in_one_piece_and_share_a_connection() -> None:
    connections: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces: list[bytes] = []
        connections.append(pieces)
        while piece := await reader.read(1 << 16):
            pieces.append(piece)
            writer.write(ANSWER)

    async def call_twice() -> None:
        async with gateway(serve) as address:
            to_gateway = GatewayConnections()
            for _ in range(2):
                response = await to_gateway.send(address, *request(address))
                assert (response.status_code, await response.aread()) == (200, b"hello")
            to_gateway.close()

    asyncio.run(call_twice())
    (pieces,) = connections
    assert len(pieces) == 2
    assert all(piece.startswith(b"POST / ") and piece.endswith(b'{"prompt": "hi"}') for piece in pieces)


def test_a_connection_that_the_gateway_has_closed_is_replaced() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(ANSWER)

    async def call_twice() -> None:
        async with gateway(serve) as address:
            to_gateway = GatewayConnections()
            await (await to_gateway.send(address, *request(address))).aread()
            assert to_gateway.idle_count == 1
            while to_gateway.idle_count:
                await asyncio.sleep(0.01)
            assert await (await to_gateway.send(address, *request(address))).aread() == b"hello"
            to_gateway.close()

    asyncio.run(call_twice())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", httpx2.RemoteProtocolError),
        (b"no HTTP\r\n\r\n", httpx2.RemoteProtocolError),
    ],
)
def test_an_answer_that_does_not_come_to_its_end_is_the_libraries_own_error(
    answer: bytes, error: type[Exception]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(answer)

    async def call() -> None:
        async with gateway(serve) as address:
            to_gateway = GatewayConnections()
            with pytest.raises(error):
                await (await to_gateway.send(address, *request(address))).aread()
            assert to_gateway.idle_count == 0

    asyncio.run(call())


def test_nobody_listening_is_the_libraries_own_error() -> None:
    async def serve(*_: Any) -> None: ...

    async def call() -> None:
        async with gateway(serve) as address:
            pass
        with pytest.raises(httpx2.ConnectError) as raised:
            await GatewayConnections().send(address, *request(address))
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)

    asyncio.run(call())


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_call_that_is_given_up_ends_its_connection(has_begun: bool) -> None:
    async def call() -> None:
        asked, gone = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1 << 16)
            if has_begun:
                writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            asked.set()
            assert await reader.read() == b""
            gone.set()

        async with gateway(serve) as address, asyncio.timeout(60):
            to_gateway = GatewayConnections()

            async def give_up() -> None:
                response = await to_gateway.send(address, *request(address))
                try:
                    await response.aread()
                finally:
                    await response.aclose()

            calling = asyncio.ensure_future(give_up())
            await asked.wait()
            calling.cancel()
            await gone.wait()
            assert to_gateway.idle_count == 0

    asyncio.run(call())
