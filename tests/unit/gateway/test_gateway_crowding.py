"""Clients of the gateway that hold connections and answers up, and what that costs the others: nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from agentos.gateway import connection, server
from agentos.gateway.clients import Clients
from agentos.gateway.connection import ClientReply, Connection
from agentos.gateway.relay import Relay
from agentos.gateway.routing import Policy, Received
from agentos.gateway.server import GatewayServer

DEADLINE_SECONDS = 60.0
HELLO = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


@asynccontextmanager
async def gateway() -> AsyncIterator[int]:
    serving = GatewayServer(cast(Relay, None), Clients(), Policy())
    listener = socket.create_server(("127.0.0.1", 0))
    await serving.listen(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        await serving.close()


def test_connections_that_ask_for_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def call() -> None:
        async with gateway() as port, asyncio.timeout(DEADLINE_SECONDS):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for _, writer in idle:
                writer.write(b"POST /v1/chat/comp")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HELLO)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert await idle[0][0].read() == b""  # The oldest has made room for it.
            for each in (writer, *(writer for _, writer in idle)):
                each.close()

    asyncio.run(call())


def test_a_client_that_does_not_read_its_answer_gives_its_key_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PIECE_SECONDS", 0.1)

    async def call() -> None:
        ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def serve(received: Received, answer: ClientReply) -> None:
            try:
                await answer.start(200, [])
                while True:
                    await answer.write(b"x" * 65_536)
            except BaseException as error:
                ended.set_result(error)
                raise

        async def knows(*_: Any) -> bool:
            return True

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with pytest.raises(ConnectionAbortedError):
                await Connection(reader, writer, serve, knows).serve()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
            address = listener.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(HELLO)
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert isinstance(await ended, ConnectionAbortedError)
            writer.close()
            reader.feed_eof()

    asyncio.run(call())
