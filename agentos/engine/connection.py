"""Bytes on their way through a socket that is watched by a loop."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from agentos.engine.loop import READ, WRITE, Loop

_READ_BYTES = 1 << 20


class Connection:
    """Reads what comes and writes what has room; never blocks. `on_end` is told once."""

    def __init__(
        self, loop: Loop, connection: socket.socket, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._socket = connection
        self._on_data = on_data
        self._on_end = on_end
        self._unsent = bytearray()
        self._is_waiting_to_write = False
        connection.setblocking(False)
        loop.watch(connection.fileno(), READ, self._serve)

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def send(self, data: bytes) -> None:
        self._unsent += data
        if not self._is_waiting_to_write:
            self._push()

    def read_all(self) -> None:
        """What has come by now, to its last byte."""
        while self._socket.fileno() >= 0 and self._read():
            pass

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()

    def serve_until(self, is_enough: Callable[[], bool], deadline: float) -> None:
        """For when the loop is over: nothing but this connection is served until then, by `time.monotonic`."""
        while not is_enough() and self._socket.fileno() >= 0 and (left := deadline - time.monotonic()) > 0:
            wanted = [self._socket] if self._unsent else []
            readable, writable, _ = select.select([self._socket], wanted, [], left)
            self._serve((READ if readable else 0) | (WRITE if writable else 0))

    def _serve(self, events: int) -> None:
        if events & WRITE:
            self._push()
        if events & READ and self._socket.fileno() >= 0:
            self._read()

    def _push(self) -> None:
        if self._socket.fileno() < 0:
            self._unsent.clear()
            return
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # Its end is heard when it is read from.
        if self._is_waiting_to_write != bool(self._unsent):
            self._is_waiting_to_write = bool(self._unsent)
            wanted = READ | WRITE if self._unsent else READ
            self._loop.watch(self._socket.fileno(), wanted, self._serve)

    def _read(self) -> bool:
        """Whether there was anything, be it the end."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:
            self.close()
            self._on_end()
        return True
