"""The gateway of a run: what its coordinator says, carried out.

Keys stay with the coordinator: each call asks it for one and holds it as long as the call lasts.
"""

from __future__ import annotations

import asyncio
import socket

from agentos.gateway.clients import Clients
from agentos.gateway.leases import SentLeases
from agentos.gateway.messages import (
    Admit,
    Answered,
    Asked,
    Begin,
    Dismiss,
    KeyGiven,
    KeyWanted,
    KeyWithheld,
    PortKnown,
    ToGateway,
    WorkerKnown,
    from_gateway,
    to_gateway,
)
from agentos.gateway.relay import Relay
from agentos.gateway.routing import Policy
from agentos.gateway.server import GatewayServer
from agentos.gateway.upstream import Upstream
from agentos.gateway.worker_calls import LeasedKeys, WorkerCalls
from agentos.keys.leases import LeaseRequest
from agentos.processes.sockets import process_behind

_LONGEST_LINE = 16 * 1024 * 1024


class GatewayProcess:
    """What the coordinator says, carried out."""

    def __init__(self, listener: socket.socket, writer: asyncio.StreamWriter) -> None:
        self._listener = listener
        self._port = listener.getsockname()[1]
        self._writer = writer
        self._workers: dict[int, str] = {}
        self._ports: dict[int, str] = {}
        self._clients = Clients(self._owner_behind)
        self._leases = SentLeases(self._tell)
        self._upstream = Upstream()
        self._keys = LeasedKeys(self._want)
        calls = WorkerCalls(self._keys, self._upstream)
        self._server = GatewayServer(Relay(self._leases, self._upstream), self._clients, Policy(), calls)

    async def hear(self, message: ToGateway) -> None:
        match message:
            case Begin(shared_token=shared_token, takes_own_keys=takes_own_keys):
                self._clients.share(shared_token, takes_own_keys=takes_own_keys)
                await self._server.listen(self._listener)
            case Admit(token=token, owner=owner):
                self._clients.admit(token, owner)
            case WorkerKnown(owner=owner, pid=pid):
                self._workers[pid] = owner
            case PortKnown(owner=owner, port=port):
                self._ports[port] = owner
            case Dismiss(owner=owner):
                self._workers = {pid: whose for pid, whose in self._workers.items() if whose != owner}
                self._ports = {port: whose for port, whose in self._ports.items() if whose != owner}
                self._clients.dismiss(owner)
            case Answered(owner=owner, answer=answer):
                self._leases.deliver(owner, answer)
            case KeyGiven(number=number) as given:
                self._keys.deliver(number, given)
            case KeyWithheld(number=number):
                self._keys.deliver(number, None)

    async def close(self) -> None:
        await self._server.close()
        await self._upstream.close()

    def _tell(self, owner: str, request: LeaseRequest) -> None:
        self._writer.write(from_gateway.encode(Asked(owner=owner, request=request)))

    def _want(self, wanted: KeyWanted) -> None:
        self._writer.write(from_gateway.encode(wanted))

    def _owner_behind(self, peer_port: int) -> str | None:
        pid = process_behind(peer_port, self._port, self._workers)
        # Processes first: a port may have been one of another machine's calls before.
        return self._ports.get(peer_port) if pid is None else self._workers.get(pid)


async def serve(listener: socket.socket, control: socket.socket) -> None:
    """Until the coordinator is gone."""
    reader, writer = await asyncio.open_unix_connection(sock=control, limit=_LONGEST_LINE)
    gateway = GatewayProcess(listener, writer)
    while line := await reader.readline():
        await gateway.hear(to_gateway.decode(line))
    await gateway.close()
