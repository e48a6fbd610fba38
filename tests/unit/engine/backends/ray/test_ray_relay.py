"""Connections carried between a node and the coordinator's machine: real sockets, one loop, messages handed over."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from agentos.engine.backends.ray.messages import Carried, Reached
from agentos.engine.backends.ray.relay import Entrance, Exit, RelayMessage
from agentos.engine.loop import Loop

MEGABYTE = bytes(range(256)) * 4096


class Service:
    """What the connections lead to: gives back what it gets, as long as it is let."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.may_read = threading.Event()
        self.may_read.set()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._echo, args=[connection], daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while self.may_read.wait() and (data := connection.recv(1 << 16)):
                connection.sendall(data)


class Ways:
    """Both ends in one loop. `carried` counts the pieces that each way has sent."""

    def __init__(self, port: int) -> None:
        self.loop = Loop()
        self._opened: list[socket.socket] = []
        self.reached: list[tuple[str, int]] = []
        self.sent: Counter[str] = Counter()
        self.entrance = Entrance(self.loop, port, self._up, {})
        self.exit = Exit(self.loop, port, self._down, lambda item, source: self.reached.append((item, source)))
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()

    def _up(self, message: RelayMessage) -> None:
        self.sent["up"] += isinstance(message, Carried)
        self.loop.post(lambda: self.exit.take(message))

    def _down(self, message: RelayMessage) -> None:
        self.sent["down"] += isinstance(message, Carried)
        self.loop.post(lambda: None if isinstance(message, Reached) else self.entrance.take(message))

    def connect(self) -> socket.socket:
        host, _, port = self.entrance.address.partition(":")
        self._opened.append(socket.create_connection((host, int(port)), timeout=30))
        return self._opened[-1]

    def close(self) -> None:
        for connection in self._opened:
            connection.close()
        self.loop.post(self.loop.stop)
        self._thread.join(30)
        self.entrance.close()
        self.exit.close()
        self.loop.close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.listener.close()


@pytest.fixture
def ways(service: Service) -> Iterator[Ways]:
    made = Ways(service.port)
    yield made
    made.close()


def read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (block := connection.recv(1 << 16)):
        data += block
    return bytes(data)


def fill(connection: socket.socket) -> None:
    """Until nothing more is taken for a while."""
    while True:
        connection.sendall(MEGABYTE)


def test_bytes_go_there_and_back_unchanged_on_each_of_several_connections(ways: Ways) -> None:
    connections = [ways.connect() for _ in range(3)]
    for number, connection in enumerate(connections):
        threading.Thread(target=connection.sendall, args=[MEGABYTE + bytes([number])], daemon=True).start()
    for number, connection in enumerate(connections):
        assert read(connection, len(MEGABYTE) + 1) == MEGABYTE + bytes([number])


def test_a_reader_that_waits_holds_up_its_writer_alone(ways: Ways, service: Service) -> None:
    service.may_read.clear()
    stuck = ways.connect()
    stuck.settimeout(0.5)
    with pytest.raises(TimeoutError):
        fill(stuck)
    held = ways.sent["up"]
    assert held * (1 << 17) < 32 << 20
    service.may_read.set()
    other = ways.connect()
    other.sendall(b"hello")
    assert read(other, 5) == b"hello"


def test_the_end_of_a_connection_is_told_after_its_last_byte(ways: Ways) -> None:
    connection = ways.connect()
    connection.sendall(MEGABYTE)
    assert read(connection, len(MEGABYTE)) == MEGABYTE
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""


def test_a_port_that_nobody_serves_ends_the_connection(service: Service, ways: Ways) -> None:
    service.listener.shutdown(socket.SHUT_RDWR)
    service.listener.close()
    connection = ways.connect()
    assert connection.recv(1) == b""


def test_addresses_of_the_port_are_those_of_the_node(ways: Ways, service: Service) -> None:
    told = ways.entrance.variables({"URL": f"http://127.0.0.1:{service.port}/v1", "OTHER": "http://127.0.0.1:1"})
    assert told == {"URL": f"http://{ways.entrance.address}/v1", "OTHER": "http://127.0.0.1:1"}
