"""The worker's end of its socket: what it says, what it waits for, and when it is told to stop."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import NoReturn

from agentos.engine.error_texts import safe_traceback
from agentos.engine.messages import (
    DocumentNamed,
    DocumentWriter,
    DownMessage,
    Heartbeat,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
    UpMessage,
    decode_down,
    encode,
)
from agentos.keys.lease_client import LeaseClient
from agentos.keys.leases import LeaseGranted, LeaseRefused
from agentos.processes import host
from agentos.processes.zombies import ZombieCollector
from agentos.wire import LineBuffer


class Channel:
    """The worker's end of its socket. A thread listens, so that a busy node can still be told to stop."""

    def __init__(
        self, connection: socket.socket, start: StartItem, early: list[bytes], on_stop: Callable[[], None]
    ) -> None:
        self._socket = connection
        self._start = start
        self._on_stop = on_stop
        self._lines = LineBuffer()
        self._send_lock = threading.Lock()
        self._may_proceed = threading.Semaphore(0)
        self._one_question = threading.Lock()
        self._document_writers: SimpleQueue[DocumentWriter] = SimpleQueue()
        self.is_stopping = False
        self.broker = LeaseClient(self.send)
        self._main_thread = threading.main_thread().ident
        self._pid = os.getpid()
        for line in early:
            self._take(decode_down(line))
        threading.Thread(target=self._listen, name="agentos-channel", daemon=True).start()

    @property
    def is_forked(self) -> bool:
        """Whether this is no worker but a child that a node has forked: it must not speak for the item."""
        return os.getpid() != self._pid

    def send(self, message: UpMessage) -> None:
        if self.is_forked:
            end_forked_child(None)
        data = encode(message)
        with self._send_lock:
            self._socket.sendall(data)

    def ask_to_start(self, node: str, finished: list[tuple[str, float]]) -> None:
        """Announce a node and wait until it may run. Output written so far is on its way before the announcement."""
        host.flush_output()
        self.send(NodeReady(node=node, finished=finished))
        self._may_proceed.acquire()
        if self.is_stopping:
            raise KeyboardInterrupt

    def writer_of(self, path: str) -> str:
        """The item of this run that writes a document: this one, unless another was first."""
        if self.is_forked:
            return self._start.item_id  # It cannot ask; its worker does when the item ends.
        with self._one_question:
            self.send(DocumentNamed(path=path))
            # An answer to somebody who was interrupted while waiting may come first.
            while (answer := self._document_writers.get()).path != path:
                pass
            return answer.item_id

    def _listen(self) -> None:
        beat = self._start.heartbeat_seconds
        zombies = ZombieCollector()
        self._socket.settimeout(None)
        while True:
            try:
                data = self._receive(beat)
            except OSError:
                data = b""
            if data is None:
                with suppress(OSError):
                    self.send(Heartbeat())
                zombies.collect()
                continue
            if not data:
                _end_group()
            for line in self._lines.feed(data):
                self._take(decode_down(line))

    def _receive(self, seconds: float) -> bytes | None:
        """None when there was nothing for that long. A timeout on the socket would apply to sends as well."""
        ready, _, _ = select.select([self._socket], [], [], seconds)
        return self._socket.recv(1 << 16) if ready else None

    def _take(self, received: DownMessage) -> None:
        match received:
            case Proceed():
                self._may_proceed.release()
            case StopItem():
                self._stop()
            case LeaseGranted() | LeaseRefused():
                self.broker.deliver(received)
            case DocumentWriter():
                self._document_writers.put(received)
            case StartItem():
                raise ValueError("an item was started already")

    def _stop(self) -> None:
        """Interrupt the main thread as Ctrl+C would: `finally` blocks run, children are ended, sleeps end."""
        self.is_stopping = True
        self._may_proceed.release()
        if self._main_thread is not None:
            signal.pthread_kill(self._main_thread, signal.SIGINT)
        # Calls in other threads know nothing of the signal.
        self.broker.stop()
        self._on_stop()
        threading.Thread(target=self._end_after_grace, daemon=True).start()

    def _end_after_grace(self) -> None:
        time.sleep(self._start.stop_grace_seconds)
        _end_group()


def _end_group() -> None:
    """This process and everything in its group, now."""
    os.killpg(0, signal.SIGKILL)


def end_forked_child(error: BaseException | None) -> NoReturn:
    """A child that came out of its node, as `sys.exit` does, ends as a program of its own would."""
    exit_status = 0
    if isinstance(error, SystemExit):
        exit_status = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.stderr.write(safe_traceback(error))
        exit_status = 1
    host.flush_output()
    os._exit(exit_status)
