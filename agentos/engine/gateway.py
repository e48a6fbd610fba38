"""The coordinator's side of a run's gateway: an address from the start, a process from the first connection on.

A run that calls nobody pays for a listening socket. Tokens are made here; keys go to the process one call at a time.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from agentos.engine.connection import Connection
from agentos.engine.loop import READ, Loop
from agentos.gateway.clients import new_token
from agentos.gateway.environment import client_environment
from agentos.gateway.messages import (
    FIRST_TICKET,
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
from agentos.keys.leases import (
    Lease,
    LeaseAnswer,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRequest,
    LeaseReturn,
)
from agentos.processes.children import dying_with_parent
from agentos.providers.evidence import TransportFailed
from agentos.wire import LineBuffer

TakeRequest = Callable[[str, LeaseRequest], None]
_BACKLOG = 512


class RunGateway:
    """All calls come from the loop, but for those before the run."""

    first_ticket = FIRST_TICKET
    """Its tickets begin here; those of workers are smaller."""

    def __init__(
        self,
        loop: Loop,
        *,
        served: Collection[str],
        environment: Mapping[str, str],
        passed: Collection[str],
        process_environment: Mapping[str, str],
    ) -> None:
        """Clients find it for the `served` providers; what is `passed` on to workers as it is stays so.

        `environment` is the user's; the process gets one without keys.
        """
        self._loop = loop
        self._served = served
        self._environment = environment
        self._passed = passed
        self._process_environment = process_environment
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self._root = f"http://127.0.0.1:{self.port}"
        self._shared_token = new_token()
        self._tokens: dict[str, str] = {}
        self._workers: dict[str, int] = {}
        self._ports: dict[int, str] = {}
        """Where calls from other machines come in, and whose they are."""
        self._take: TakeRequest = lambda _owner, _request: None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Connection | None = None
        self._lines = LineBuffer()
        self._waiting: set[tuple[str, int]] = set()
        self._held: set[tuple[str, int]] = set()
        self._covered: dict[str, tuple[str, Lease]] = {}
        """Leases of workers and whose they are, by the token that stands for the key."""
        loop.watch(self._listener.fileno(), READ, self._first_connection)

    def serve(self, take: TakeRequest) -> None:
        """`take` hears what calls say to the broker; `answer` is told what it says to them."""
        self._take = take

    def shared_environment(self) -> dict[str, str]:
        """For code that runs before there are items: what it keeps of it is good in each item's worker."""
        return self._client_environment(self._shared_token)

    def admit(self, item_id: str) -> dict[str, str]:
        """What an item's worker is told, with a token of its own."""
        if item_id not in self._tokens:
            self._tokens[item_id] = new_token()
            self._send(Admit(token=self._tokens[item_id], owner=item_id))
        return self._client_environment(self._tokens[item_id])

    def worker_opened(self, item_id: str, pid: int) -> None:
        self._workers[item_id] = pid
        self._send(WorkerKnown(owner=item_id, pid=pid))

    def worker_reached(self, item_id: str, port: int) -> None:
        self._ports[port] = item_id
        self._send(PortKnown(owner=item_id, port=port))

    def cover(self, item_id: str, granted: LeaseGranted) -> LeaseGranted:
        """What the item's worker is told of its lease: a token for the key, and that its call comes through us."""
        if not granted.lease.secret:
            return granted
        token = new_token()
        self._covered[token] = (item_id, granted.lease)
        return replace(granted, lease=replace(granted.lease, secret=token, through=self._root))

    def uncover(self, fence: int) -> None:
        """The worker has given its lease back."""
        self._covered = {token: each for token, each in self._covered.items() if each[1].fence != fence}

    def dismiss(self, item_id: str) -> None:
        """The item's worker is gone, and its tokens with it."""
        self._workers.pop(item_id, None)
        self._ports = {port: whose for port, whose in self._ports.items() if whose != item_id}
        self._covered = {token: each for token, each in self._covered.items() if each[0] != item_id}
        if self._tokens.pop(item_id, None) is not None:
            self._send(Dismiss(owner=item_id))

    def answer(self, item_id: str, answer: LeaseAnswer) -> None:
        self._waiting.discard((item_id, answer.ticket))
        if isinstance(answer, LeaseGranted):
            self._held.add((item_id, answer.lease.fence))
        self._send(Answered(owner=item_id, answer=answer))

    def close(self) -> None:
        """The process ends with its socket; nothing of it is left behind this call."""
        if self._listener.fileno() >= 0:
            self._loop.unwatch(self._listener.fileno())
            self._listener.close()
        self._end_process()

    def _client_environment(self, token: str) -> dict[str, str]:
        return client_environment(self._root, token, self._served, self._environment, self._passed)

    def _first_connection(self, _events: int) -> None:
        self._loop.unwatch(self._listener.fileno())
        ours, theirs = socket.socketpair()
        numbers = (self._listener.fileno(), theirs.fileno())
        command = [sys.executable, "-P", "-m", "agentos.gateway.process", *map(str, numbers)]
        try:
            self._process = subprocess.Popen(
                dying_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=numbers,
                env=dict(self._process_environment),
                # Ctrl+C is the coordinator's to answer.
                process_group=0,
            )
        finally:
            theirs.close()
        self._control = Connection(self._loop, ours, self._hear, self._lost)
        # Where clients find us by their variables, a graph may set those again, as `load_dotenv(override=True)` does.
        self._send(Begin(shared_token=self._shared_token, takes_own_keys=bool(self._served)))
        for item_id, token in self._tokens.items():
            self._send(Admit(token=token, owner=item_id))
        for item_id, pid in self._workers.items():
            self._send(WorkerKnown(owner=item_id, pid=pid))
        for port, item_id in self._ports.items():
            self._send(PortKnown(owner=item_id, port=port))

    def _send(self, message: ToGateway) -> None:
        if self._control is not None:
            self._control.send(to_gateway.encode(message))

    def _hear(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            match from_gateway.decode(line):
                case Asked(owner=owner, request=request):
                    self._note(owner, request)
                    self._take(owner, request)
                case KeyWanted(number=number, token=token):
                    self._give_key(number, token)

    def _give_key(self, number: int, token: str) -> None:
        found = self._covered.get(token)
        if found is None:
            self._send(KeyWithheld(number=number))
        else:
            self._send(KeyGiven(number=number, owner=found[0], lease=found[1]))

    def _note(self, owner: str, request: LeaseRequest) -> None:
        match request:
            case LeaseAsk(ticket=ticket):
                self._waiting.add((owner, ticket))
            case LeaseCancel(ticket=ticket):
                self._waiting.discard((owner, ticket))
            case LeaseReturn(fence=fence):
                self._held.discard((owner, fence))

    def _lost(self) -> None:
        """Its calls are lost with it; the next connection starts another one."""
        self._end_process()
        waiting, held, self._waiting, self._held = self._waiting, self._held, set(), set()
        for owner, ticket in waiting:
            self._take(owner, LeaseCancel(ticket=ticket))
        for owner, fence in held:
            ended = TransportFailed(reason="the gateway ended", may_be_charged=True)
            self._take(owner, LeaseReturn(fence=fence, evidence=ended))
        self._lines = LineBuffer()
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), READ, self._first_connection)

    def _end_process(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None
