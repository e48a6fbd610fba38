"""The socket of a run: one line of JSON with what a person wants in, one line with how the run is out.

It lies in the run's folder, for its owner alone. Who asks is what the kernel says of the other end.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentos.engine.loop import READ, WRITE, Loop, Timer
from agentos.engine.steering import Act, ActRefused, NotYet

SOCKET_NAME = "control.sock"
VIAS = ("ctl", "page")
"""What people may use; anything else is not repeated to anybody."""

_MOST_BYTES = 1 << 16
_MOST_CONNECTIONS = 32
_PATIENCE_SECONDS = 10.0
_LONGEST_REASON = 500
_LONGEST_PATH = 100
_CREDENTIALS = struct.Struct("3i")


class RunOver(Exception):
    """The run ended before it took the act."""


class ControlServer:
    """Listens on the run's loop. `close` leaves no socket behind."""

    def __init__(self, run_dir: Path, loop: Loop, take: Callable[[Act], dict[str, Any]]) -> None:
        """Raises OSError when the folder takes no socket."""
        self._path = run_dir / SOCKET_NAME
        self._loop = loop
        self._take = take
        self._connections: set[_Connection] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            with _short_path(run_dir) as short:
                self._socket.bind(short)
            self._path.chmod(0o600)
            self._socket.listen(_MOST_CONNECTIONS)
        except OSError:
            self._socket.close()
            raise
        loop.watch(self.fileno(), READ, self._accept)

    def fileno(self) -> int:
        """Readable when somebody asks."""
        return self._socket.fileno()

    def close(self) -> None:
        for connection in tuple(self._connections):
            connection.close()
        self._loop.unwatch(self.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _accept(self, _events: int) -> None:
        with suppress(OSError):
            accepted, _ = self._socket.accept()
            if len(self._connections) >= _MOST_CONNECTIONS:
                accepted.close()
                return
            self._connections.add(_Connection(accepted, self._loop, self._answer, self._connections.discard))

    def _answer(self, line: bytes, user: str) -> dict[str, Any]:
        try:
            return {"ok": True, "run": self._take(_act_of(line, user))}
        except ActRefused as refusal:
            return {"ok": False, "error": str(refusal), "is_starting": isinstance(refusal, NotYet)}


class _Connection:
    """One question and its answer."""

    def __init__(
        self,
        peer: socket.socket,
        loop: Loop,
        answer: Callable[[bytes, str], dict[str, Any]],
        closed: Callable[[_Connection], None],
    ) -> None:
        self._peer = peer
        self._loop = loop
        self._answer = answer
        self._closed = closed
        self._received = b""
        self._to_send = b""
        self._timer: Timer = loop.after(_PATIENCE_SECONDS, self.close)
        peer.setblocking(False)
        loop.watch(peer.fileno(), READ, self._receive)

    def close(self) -> None:
        self._timer.cancel()
        if self._peer.fileno() >= 0:
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()
            self._closed(self)

    def _receive(self, _events: int) -> None:
        try:
            data = self._peer.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        line, end, _ = self._received.partition(b"\n")
        if end:
            self._to_send = json.dumps(self._answer(line, _user_of(self._peer))).encode() + b"\n"
            self._loop.watch(self._peer.fileno(), WRITE, self._send)
        elif not data or len(self._received) > _MOST_BYTES:
            self.close()

    def _send(self, _events: int) -> None:
        try:
            sent = self._peer.send(self._to_send)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._to_send = self._to_send[sent:]
        if not self._to_send:
            self.close()


def ask(
    run_dir: Path,
    request: dict[str, Any],
    *,
    is_live: Callable[[Path], bool],
    patience_seconds: float = _PATIENCE_SECONDS,
) -> dict[str, Any]:
    """The run's answer. Raises ActRefused with its reason, RunOver, or OSError when a live run does not answer."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            answer = _ask_once(run_dir, request, patience_seconds)
        except (FileNotFoundError, ConnectionError) as error:
            # It has not begun to listen, or has just ceased to; one that hung up has not taken the act.
            if not is_live(run_dir):
                raise RunOver from error
            if time.monotonic() >= deadline:
                raise
        else:
            if answer.get("ok"):
                run: dict[str, Any] = answer["run"]
                return run
            if not answer.get("is_starting") or time.monotonic() >= deadline:
                raise ActRefused(str(answer.get("error", "the run gave no reason")))
        time.sleep(0.05)


def _ask_once(run_dir: Path, request: dict[str, Any], patience_seconds: float) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(patience_seconds, 1.0))
        with _short_path(run_dir) as short:
            connection.connect(short)
        connection.sendall(json.dumps(request).encode() + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            data = connection.recv(_MOST_BYTES)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "the run ended before it answered")
            received += data
    answer: dict[str, Any] = json.loads(received)
    return answer


@contextmanager
def _short_path(run_dir: Path) -> Iterator[str]:
    """The socket's path in few enough bytes: a socket's name holds 107, a home may be deeper."""
    path = str(run_dir / SOCKET_NAME)
    if len(os.fsencode(path)) < _LONGEST_PATH or not Path("/proc/self/fd").is_dir():
        yield path
        return
    descriptor = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def _user_of(peer: socket.socket) -> str:
    """By the kernel's word, where it gives one. The folder lets nobody but the owner and root in."""
    if not hasattr(socket, "SO_PEERCRED"):
        return "the owner"
    _, user_id, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"


def _act_of(line: bytes, user: str) -> Act:
    """Raises ActRefused for what is no act."""
    try:
        said = json.loads(line)
        value = said.get("value")
        act = Act(
            name=_text(said["act"]),
            by=f"{user} ({said['via'] if said.get('via') in VIAS else 'program'})",
            item_id=_text(said.get("item", "")),
            value=None if value is None else float(value),
            reason=" ".join(_text(said.get("reason", "")).split())[:_LONGEST_REASON],
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ActRefused("the request is no line of JSON with an act") from error
    return act


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
