"""Where the owner of a home's pool is found, and who becomes it: whoever has the lock, which ends with its process.

Clients hold a lock each as well, so that a new owner knows who has outlived the last one.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - Windows, where every process has a pool of its own
    fcntl = None  # type: ignore[assignment]

from agentos.files import PRIVATE_FILE_MODE
from agentos.keys.home_messages import Hello, to_client, to_owner
from agentos.keys.home_pool import HomePool
from agentos.keys.memory import LimitMemory
from agentos.keys.presence import RETRY_SECONDS, appear, held_lock, is_at, living
from agentos.keys.send_log import SendLog
from agentos.paths import key_pool_dir
from agentos.processes import host
from agentos.wire import LineBuffer

_READ_BYTES = 1 << 16
_MOST_UNSENT = 16 * 1024 * 1024
"""A client that takes nothing any more is let go."""

MakePool = Callable[[set[str]], HomePool]


def is_possible() -> bool:
    return fcntl is not None and hasattr(socket, "AF_UNIX")


def _own_pool(survivors: set[str]) -> HomePool:
    return HomePool(memory=LimitMemory(), sends=SendLog(), survivors=survivors)


class HomeSocket:
    """One process's way to the owner, which it may become itself."""

    def __init__(self, folder: Path | None = None, make_pool: MakePool = _own_pool) -> None:
        self._folder = key_pool_dir() if folder is None else folder
        self._make_pool = make_pool
        self.client = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._client_fd = self._folder_fd = -1
        self._is_closed = threading.Event()
        self._server: OwnerServer | None = None

    def open(self) -> None:
        """Say that this client lives. Raises OSError where the folder cannot be used."""
        self._client_fd = appear(self._folder / "clients", self.client)
        # Its path may be longer than the kernel takes for a socket: it is named from the folder.
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)

    def connect(self) -> socket.socket:
        """The owner, whoever it is by now. Raises OSError where there can be none."""
        while not self._is_closed.is_set():
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._address)
                return connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
            except BaseException:
                connection.close()
                raise
            if not self._become_owner():
                self._is_closed.wait(RETRY_SECONDS)
        raise ConnectionAbortedError

    def close(self) -> None:
        """An owner leaves its place to the others. May be called again."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        self._give_up_place()
        for descriptor in (self._client_fd, self._folder_fd):
            if descriptor >= 0:
                os.close(descriptor)
        with suppress(OSError):
            (self._folder / "clients" / self.client).unlink()

    def depose_if_suspended(self, connection: socket.socket) -> bool:
        """Whether the owner there was suspended: then its place is free, and it notices when it continues.

        The lock file is no longer the home's; it names its owner, so that nobody takes the place of a later one.
        """
        pid = _pid_behind(connection)
        if pid in (0, os.getpid()) or not host.is_suspended(pid):
            return False
        with suppress(OSError, ValueError):
            turn = held_lock(self._folder / "deposing.lock")
            try:
                if int((self._folder / "owner.lock").read_text()) == pid:
                    (self._folder / "owner.lock").unlink()
                    (self._folder / "owner.sock").unlink(missing_ok=True)
            finally:
                os.close(turn)
        return True

    @property
    def _address(self) -> str:
        short = f"/proc/self/fd/{self._folder_fd}/owner.sock"
        return short if Path("/proc/self/fd").is_dir() else str(self._folder / "owner.sock")

    def _become_owner(self) -> bool:
        path = self._folder / "owner.lock"
        try:
            descriptor = held_lock(path)
        except BlockingIOError:
            return False
        if not is_at(descriptor, path):
            os.close(descriptor)  # Somebody was deposed just now: the lock is another file.
            return False
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._give_up_place()
        with suppress(FileNotFoundError):
            (self._folder / "owner.sock").unlink()
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o777 & ~PRIVATE_FILE_MODE)
        try:
            listener.bind(self._address)
        finally:
            os.umask(before)
        listener.listen(128)
        place = _Place(descriptor, path)
        survivors = living(self._folder / "clients", but=self.client)
        self._server = OwnerServer(listener, self._make_pool(survivors), place)
        self._server.start()
        return True

    def _give_up_place(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Being the owner: a lock on the file of that name."""

    descriptor: int
    path: Path

    @property
    def is_ours(self) -> bool:
        """Another process may take the place of one that was suspended."""
        return is_at(self.descriptor, self.path)

    def leave(self) -> None:
        os.close(self.descriptor)


def _pid_behind(connection: socket.socket) -> int:
    """The process at the other end; 0 where the kernel does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


@dataclass(slots=True, eq=False)
class _Peer:
    connection: socket.socket
    client: str = ""
    lines: LineBuffer = field(default_factory=LineBuffer)
    unsent: bytearray = field(default_factory=bytearray)


class OwnerServer:
    """The pool on a thread of its own: carries what clients say to it, and its answers."""

    def __init__(self, listener: socket.socket, pool: HomePool, place: _Place) -> None:
        """As long as the place is ours. It is free for another when this ends, for whatever reason."""
        self._place = place
        self._listener = listener
        self._pool = pool
        self._selector = selectors.DefaultSelector()
        self._peers: dict[str, _Peer] = {}
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="agentos-pool", daemon=True)

    def start(self) -> None:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        self._waker.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._serve_once() and self._place.is_ours:
                for client, message in self._pool.turn():
                    peer = self._peers.get(client)
                    if peer is not None:
                        peer.unsent += to_client.encode(message)
                for peer in list(self._peers.values()):
                    self._push(peer)
            self._pool.save()
        finally:
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()
            self._place.leave()

    def _serve_once(self) -> bool:
        """Wait for something, and deal with it. False when it is over."""
        seconds = self._pool.seconds_to_wake()
        for key, events in self._selector.select(None if seconds is None else seconds + 0.001):
            if key.fileobj is self._wake:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif events & selectors.EVENT_READ:
                self._read(key.data)
        return True

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, _Peer(connection))

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for line in peer.lines.feed(data) if data else ():
                message = to_owner.decode(line)
                if isinstance(message, Hello):
                    peer.client = message.client
                    self._peers[peer.client] = peer
                self._pool.take(peer.client, message)
        except (ValueError, KeyError):
            data = b""  # Of another version, or nobody of ours.
        if not data:
            self._drop(peer)

    def _push(self, peer: _Peer) -> None:
        try:
            while peer.unsent:
                del peer.unsent[: peer.connection.send(peer.unsent)]
        except BlockingIOError:
            if len(peer.unsent) > _MOST_UNSENT:
                self._drop(peer)
                return
        except OSError:
            peer.unsent.clear()  # Its end is read.
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        if self._selector.get_key(peer.connection).events != wanted:
            self._selector.modify(peer.connection, wanted, peer)

    def _drop(self, peer: _Peer) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if self._peers.get(peer.client) is peer:
            del self._peers[peer.client]
            self._pool.leave(peer.client)
