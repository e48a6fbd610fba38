"""Connections from workers on other machines to one port of the coordinator's loopback, carried by its messages.

A node listens on its own loopback. What comes in travels over the connection that the run has with the node, and goes
on to the port from the coordinator's machine: nothing more listens anywhere, and what serves the port stays where it
is. Of each connection one piece is on its way at a time, so a slow reader holds up its writer and nobody else.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Mapping

from agentos.engine.backends.ray.messages import Carried, CarriedTaken, HungUp, Reached
from agentos.engine.loop import READ, WRITE, Loop
from agentos.processes.sockets import process_behind

StreamMessage = Carried | CarriedTaken | HungUp
RelayMessage = Reached | StreamMessage
_PIECE_BYTES = 1 << 17
_BACKLOG = 128


def address_of(port: int) -> str:
    return f"127.0.0.1:{port}"


class _Stream:
    """One connection's end on this side."""

    def __init__(
        self, loop: Loop, number: int, connection: socket.socket, say: Callable[[StreamMessage], None]
    ) -> None:
        self._loop = loop
        self._number = number
        self._socket = connection
        self._say = say
        self._unwritten = b""
        self._waits_for_room = False
        """A piece is on its way to the other side."""
        self._ends_when_written = False
        connection.setblocking(False)
        self._follow()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def take(self, message: StreamMessage) -> None:
        match message:
            case Carried(data=data):
                self._unwritten += base64.b64decode(data)
                self._write()
            case CarriedTaken():
                self._waits_for_room = False
                self._follow()
            case HungUp() if self._unwritten:
                self._ends_when_written = True
            case HungUp():
                self.close()

    def close(self) -> None:
        if self.is_open:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()

    def _follow(self) -> None:
        """Watch for what can be done now."""
        if not self.is_open:
            return
        wanted = (0 if self._waits_for_room else READ) | (WRITE if self._unwritten else 0)
        if wanted:
            self._loop.watch(self._socket.fileno(), wanted, self._serve)
        else:
            self._loop.unwatch(self._socket.fileno())

    def _serve(self, events: int) -> None:
        if events & WRITE:
            self._write()
        if events & READ and self.is_open and not self._waits_for_room:
            self._read()

    def _write(self) -> None:
        if not self.is_open or not self._unwritten:
            return
        try:
            self._unwritten = self._unwritten[self._socket.send(self._unwritten) :]
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()
            return
        if not self._unwritten:
            self._say(CarriedTaken(stream=self._number))
            if self._ends_when_written:
                self.close()
        self._follow()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        self._waits_for_room = True
        self._say(Carried(stream=self._number, data=base64.b64encode(data).decode()))
        self._follow()

    def _hang_up(self) -> None:
        self.close()
        self._say(HungUp(stream=self._number))


class _Streams:
    """Those of one node, on either side."""

    def __init__(self, loop: Loop, say: Callable[[StreamMessage], None]) -> None:
        self._loop = loop
        self._say = say
        self._open: dict[int, _Stream] = {}

    def add(self, number: int, connection: socket.socket) -> None:
        self._open = {each: stream for each, stream in self._open.items() if stream.is_open}
        self._open[number] = _Stream(self._loop, number, connection, self._say)

    def take(self, message: StreamMessage) -> None:
        stream = self._open.get(message.stream)
        if stream is not None:
            stream.take(message)

    def close(self) -> None:
        for stream in self._open.values():
            stream.close()
        self._open.clear()


class Entrance:
    """On the node: what its workers connect to instead of the port."""

    def __init__(
        self, loop: Loop, port: int, say: Callable[[RelayMessage], None], workers: Mapping[int, str]
    ) -> None:
        """`workers` are the processes that may connect, and their items."""
        self._loop = loop
        self._say = say
        self._workers = workers
        self._streams = _Streams(loop, say)
        self._count = 0
        self._there = address_of(port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._own_port: int = self._listener.getsockname()[1]
        self.address = address_of(self._own_port)
        loop.watch(self._listener.fileno(), READ, self._accept)

    def here(self, text: str) -> str:
        """A text that names the port, as workers of this node are to read it."""
        return text.replace(self._there, self.address)

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {name: self.here(value) for name, value in variables.items()}

    def take(self, message: StreamMessage) -> None:
        self._streams.take(message)

    def close(self) -> None:
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        self._streams.close()

    def _accept(self, _events: int) -> None:
        try:
            connection, (_, its_port) = self._listener.accept()
        except OSError:
            return  # Gone again.
        self._count += 1
        pid = process_behind(its_port, self._own_port, self._workers)
        self._say(Reached(stream=self._count, item_id="" if pid is None else self._workers[pid]))
        self._streams.add(self._count, connection)


class Exit:
    """On the coordinator's machine: opens the connections that a node's workers have asked for."""

    def __init__(
        self,
        loop: Loop,
        port: int,
        say: Callable[[StreamMessage], None],
        on_reach: Callable[[str, int], None],
    ) -> None:
        """`on_reach` is told the item and the port that the connection comes from, before it is made."""
        self._port = port
        self._say = say
        self._on_reach = on_reach
        self._streams = _Streams(loop, say)

    def take(self, message: RelayMessage) -> None:
        if isinstance(message, Reached):
            self._reach(message.stream, message.item_id)
        else:
            self._streams.take(message)

    def close(self) -> None:
        self._streams.close()

    def _reach(self, number: int, item_id: str) -> None:
        connection = socket.socket()
        try:
            connection.bind(("127.0.0.1", 0))
            if item_id:
                self._on_reach(item_id, connection.getsockname()[1])
            # On loopback the kernel answers for whoever listens: this does not wait.
            connection.settimeout(1.0)
            connection.connect(("127.0.0.1", self._port))
        except OSError:
            connection.close()
            self._say(HungUp(stream=number))
            return
        self._streams.add(number, connection)
