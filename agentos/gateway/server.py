"""The HTTP server of the gateway: who may come in, what they ask for, and that their calls end with them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from agentos.errors import UsageError
from agentos.gateway import openai
from agentos.gateway.clients import Clients
from agentos.gateway.connection import CHUNK_BYTES, ClientReply, Connection
from agentos.gateway.relay import Relay
from agentos.gateway.routing import Policy, Received, dialect_of, is_foreign, read_call, token_of
from agentos.gateway.worker_calls import WorkerCalls, fail
from agentos.llm.settings import endpoint
from agentos.llm.through_gateway import LEASE_HEADER, Failure

MOST_CONNECTIONS = 1000
_log = logging.getLogger(__name__)


class GatewayServer:
    """Serves on the sockets it is given until it is closed."""

    def __init__(
        self, relay: Relay, clients: Clients, policy: Policy, worker_calls: WorkerCalls | None = None
    ) -> None:
        """`worker_calls` serves those who hold a lease already: workers of a run."""
        self._relay = relay
        self._worker_calls = worker_calls
        self._clients = clients
        self._policy = policy
        self._connections: dict[asyncio.Task[None], Connection] = {}
        """The oldest first."""
        self._calls: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._servers: list[asyncio.Server] = []
        clients.on_gone(self._end_calls)

    async def listen(self, listener: socket.socket) -> None:
        if listener.family == socket.AF_UNIX:
            server = await asyncio.start_unix_server(self._accept, sock=listener, limit=CHUNK_BYTES)
        else:
            server = await asyncio.start_server(self._accept, sock=listener, limit=CHUNK_BYTES)
        self._servers.append(server)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _end_calls(self, owner: str) -> None:
        for task in self._calls.pop(owner, ()):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CONNECTIONS and not self._end_one_that_is_idle():
            writer.close()
            return
        self._connections[task] = Connection(reader, writer, self._answer, self._knows)
        try:
            await self._connections[task].serve()
        except (asyncio.CancelledError, ConnectionError, TimeoutError):
            pass  # Closed by us, or by the client.
        except Exception:
            _log.exception("a connection of the gateway failed")
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _end_one_that_is_idle(self) -> bool:
        """Whoever holds connections open without asking for anything keeps nobody out."""
        oldest = next((task for task, connection in self._connections.items() if connection.is_idle), None)
        if oldest is None:
            return False
        del self._connections[oldest]
        oldest.cancel()
        return True

    async def _knows(self, received: Received, peer_port: int) -> bool:
        if self._worker_calls is not None and LEASE_HEADER in received.by_name:
            return await self._worker_calls.lease(received) is not None
        _, dialect, _ = dialect_of(received)
        return self._clients.owner(token_of(received, dialect), peer_port) is not None

    async def _answer(self, received: Received, answer: ClientReply) -> None:
        """Only with a token that is valid does anything leave this machine."""
        if is_foreign(received):
            return await answer.error(openai.DIALECT, 421, "This gateway serves its own machine only.")
        if self._worker_calls is not None and LEASE_HEADER in received.by_name:
            return await self._serve_worker(self._worker_calls, received, answer)
        if received.path == "/" and received.method in ("GET", "HEAD"):
            return await answer.whole(200, [("content-type", "text/plain")], b"")  # Claude Code looks who is here.
        _, dialect, path = dialect_of(received)
        if path == openai.RESPONSES and received.method == "GET":
            # Codex tries a WebSocket first; with this answer it uses HTTP from there on.
            return await answer.error(dialect, 426, "This gateway does not support WebSocket: use HTTP.")
        owner = self._clients.owner(token_of(received, dialect), answer.peer_port)
        if owner is None:
            words = (
                "The gateway does not know this token: each is valid as long as the item or client it was made for."
            )
            return await answer.error(dialect, 401, words)
        try:
            call = read_call(received, self._policy)
            endpoint(call.provider)  # Before a key is leased: there must be somewhere to send it.
        except LookupError as error:
            return await answer.error(dialect, 404, f"The gateway has no {error.args[0]}.")
        except UsageError as error:
            return await answer.error(dialect, 400, str(error))
        with self._counted(owner):
            await self._relay.serve(owner, received, call, answer)

    async def _serve_worker(self, calls: WorkerCalls, received: Received, answer: ClientReply) -> None:
        given = await calls.lease(received)
        if given is None:
            return await fail(answer, Failure(reason="the lease of the call is over"))
        with self._counted(given.owner):
            await calls.serve(received, given.lease, answer)

    @contextmanager
    def _counted(self, owner: str) -> Iterator[None]:
        """While it lasts, the call ends with its owner."""
        task = asyncio.current_task()
        assert task is not None
        self._calls[owner].add(task)
        try:
            yield
        finally:
            self._calls[owner].discard(task)
