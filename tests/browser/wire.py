"""A wire between browser and server that a test can cut and mend."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

PIECE = 65_536


class Wire:
    """Relays a port of loopback to another. While it is cut, nothing passes and nobody is let in."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._is_cut = False
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._let_in, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._door.close()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                if self._is_cut:
                    near.close()
                    continue
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        # A server that was closed lets nobody in; the browser sees that its end is closed.
        with suppress(OSError), near, socket.create_connection(("127.0.0.1", self._to_port)) as far:
            with self._lock:
                self._ends |= {near, far}
            try:
                _pass_on(near, far)
            finally:
                with self._lock:
                    self._ends -= {near, far}


def _pass_on(near: socket.socket, far: socket.socket) -> None:
    with selectors.DefaultSelector() as ready:
        ready.register(near, selectors.EVENT_READ, far)
        ready.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in ready.select():
                piece = key.fileobj.recv(PIECE)  # type: ignore[union-attr]
                if not piece:
                    return
                key.data.sendall(piece)
