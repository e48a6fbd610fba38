"""Writes to the user's terminal, pipe or file without ever blocking the loop."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable

from agentos.engine.loop import WRITE, Loop

HIGH_WATER_BYTES = 1 << 20
LOW_WATER_BYTES = 1 << 18
SAFE_PIPE_BYTES = 4096
"""A pipe that polls as writable takes this many bytes without blocking (PIPE_BUF)."""
_LARGEST_WRITE = 1 << 16


class StreamSink:
    """Buffers what the reader is not ready for. Above the high-water mark `is_full`: producers should pause."""

    def __init__(self, descriptor: int, loop: Loop, *, on_drained: Callable[[], None], on_closed: Callable[[], None]):
        self._loop = loop
        self._on_drained = on_drained
        self._on_closed = on_closed
        self._chunks: deque[memoryview] = deque()
        self._size = 0
        self._was_full = False
        self.is_closed = False
        self.fault = ""
        """Why nothing more can be written, unless the reader just left."""
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._fd, self._largest_write = (descriptor, _LARGEST_WRITE) if self._is_file else open_again(descriptor)
        self._owns_fd = self._fd != descriptor

    @property
    def is_full(self) -> bool:
        return self._size > HIGH_WATER_BYTES and not self.is_closed

    @property
    def is_behind(self) -> bool:
        """The reader has not taken everything yet."""
        return bool(self._chunks)

    def write(self, data: bytes, /) -> None:
        if self.is_closed or not data:
            return
        self._chunks.append(memoryview(data))
        self._size += len(data)
        self._push()
        self._was_full |= self.is_full

    def flush(self, seconds: float | None) -> bool:
        """Wait until everything is out, or the reader is gone, or the time is up."""
        deadline = None if seconds is None else time.monotonic() + seconds
        poller = select.poll()
        poller.register(self._fd, select.POLLOUT)
        while self._chunks and not self.is_closed:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not poller.poll(None if left is None else left * 1000) and left == 0:
                return False
            self._push()
        return not self._chunks

    def close(self) -> None:
        self._loop.unwatch(self._fd)
        self._chunks.clear()
        self._size = 0
        if self._owns_fd:
            os.close(self._fd)
            self._owns_fd = False
        self.is_closed = True

    def _push(self, _events: int = 0) -> None:
        try:
            while self._chunks:
                if not self._is_file and self._largest_write == SAFE_PIPE_BYTES and not _is_writable(self._fd):
                    break
                written = os.write(self._fd, self._chunks[0][: self._largest_write])
                self._size -= written
                rest = self._chunks.popleft()[written:]
                if rest:
                    self._chunks.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError as error:
            # The reader went away (EPIPE), the terminal did (EIO), or the disk is full: nobody can be shown anything.
            if error.errno not in (errno.EPIPE, errno.EIO):
                self.fault = error.strerror or str(error)
            self._give_up()
            return
        self._rewatch()

    def _rewatch(self) -> None:
        if self._chunks:
            self._loop.watch(self._fd, WRITE, self._push)
        else:
            self._loop.unwatch(self._fd)
        if self._was_full and self._size < LOW_WATER_BYTES:
            self._was_full = False
            self._on_drained()

    def _give_up(self) -> None:
        self._loop.unwatch(self._fd)
        self._chunks.clear()
        self._size = 0
        self.is_closed = True
        self._on_closed()
        if self._was_full:
            # Nothing is kept from here on: producers that paused for this reader need not wait for it.
            self._was_full = False
            self._on_drained()


def open_again(descriptor: int) -> tuple[int, int]:
    """A non-blocking descriptor of our own, and how much to write at once.

    Non-blocking mode belongs to the open file, which the user's shell shares: a new opening does not touch theirs.
    """
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY), _LARGEST_WRITE
    except OSError:
        # A socket, another user's pipe, no /proc: write only as much as poll promises.
        return descriptor, SAFE_PIPE_BYTES


def _is_writable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(0))
