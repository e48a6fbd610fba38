"""How a node finds out that it is the coordinator's own machine: it finds a socket there, and says the right word.

The answer brings the lock file of claims: workers of this machine hold their item's claim as long as they live.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from agentos.engine.loop import READ, Loop

_PATIENCE_SECONDS = 5.0
_WORD_BYTES = 256


def identity_of(folder: str) -> str:
    """Which folder of which disk this is, for processes of one machine; empty when there is none."""
    try:
        found = Path(folder).stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


class MeetingPlace:
    """The coordinator's side. Its folder is readable by its own user alone."""

    def __init__(self, loop: Loop, claims_fd: int) -> None:
        self._loop = loop
        self._claims_fd = claims_fd
        self._folder = Path(tempfile.mkdtemp(prefix="agentos-"))
        self.path = str(self._folder / "meet")
        self.word = secrets.token_hex(16)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), READ, self._admit)

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.unwatch(self._listener.fileno())
            self._listener.close()
            Path(self.path).unlink(missing_ok=True)
            self._folder.rmdir()

    def _admit(self, _events: int) -> None:
        with suppress(OSError):
            guest, _ = self._listener.accept()
            guest.setblocking(False)
            self._loop.watch(guest.fileno(), READ, lambda _: self._answer(guest))

    def _answer(self, guest: socket.socket) -> None:
        self._loop.unwatch(guest.fileno())
        with guest, suppress(OSError):
            if secrets.compare_digest(guest.recv(_WORD_BYTES), self.word.encode()):
                socket.send_fds(guest, [b"!"], [self._claims_fd])


def meet(path: str, word: str) -> int | None:
    """The node's side: the lock file, None on another machine."""
    with socket.socket(socket.AF_UNIX) as visitor, suppress(OSError):
        visitor.settimeout(_PATIENCE_SECONDS)
        visitor.connect(path)
        visitor.sendall(word.encode())
        _, descriptors, _, _ = socket.recv_fds(visitor, 1, 1)
        if descriptors:
            os.set_inheritable(descriptors[0], False)
            return descriptors[0]
    return None
