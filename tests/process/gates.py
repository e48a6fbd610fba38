"""A gate that nodes on any machine come to over the network, and wait at until a test opens it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

CALLER = """
import socket

def pass_gate(address, *words):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as gate:
        gate.sendall((" ".join(words) + "\\n").encode())
        gate.recv(10)
"""
"""What a graph's module needs to come to one."""


@dataclass
class Gate:
    """`arrived` has a line for each who came, in order."""

    host: str
    arrived: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = socket.create_server((self.host, 0))
        self._is_open = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self._server.getsockname()[1]}"

    def open(self) -> None:
        self._is_open.set()

    def close(self) -> None:
        self.open()
        self._server.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                guest, _ = self._server.accept()
                threading.Thread(target=self._admit, args=[guest], daemon=True).start()

    def _admit(self, guest: socket.socket) -> None:
        with guest, suppress(OSError):
            words = guest.recv(1000).decode().strip()
            self.arrived.append(words)
            self._is_open.wait()
            guest.sendall(b"go\n")
