"""A proxy on loopback that cuts one connection at an exact point: a request arrives, and its answer is lost."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress


class CuttingProxy:
    """Passes everything on to a server, until request number `cut_at` of all: that still arrives, or does not."""

    def __init__(self, port: int, cut_at: int = 0, *, arrives: bool = True) -> None:
        self._target = ("127.0.0.1", port)
        self._cut_at = cut_at
        self._arrives = arrives
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        # A thread that waits in accept is woken by this alone.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            self._end(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._open += [client, server]
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._down, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), closing(server):
            while data := client.recv(1 << 16):
                self.requests += 1
                if self.requests == self._cut_at:
                    # The client first: the answer has no way back, whoever is faster.
                    self._end(client)
                    if self._arrives:
                        server.sendall(data)
                        # As long as the server needs to answer: it reads to the end of what it was sent.
                        server.shutdown(socket.SHUT_WR)
                        while server.recv(1 << 16):
                            pass
                    return
                server.sendall(data)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        self._end(client)

    def _end(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
