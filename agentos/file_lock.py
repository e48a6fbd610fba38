"""A file lock held by one thread of one process at a time; the kernel gives it back when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentos.errors import AgentosError

_RETRY_SECONDS: Final = 0.02


class LockBusyError(AgentosError):
    """Another process kept a lock for longer than we wait."""


@contextlib.contextmanager
def locked(lock_path: Path, *, timeout_seconds: float = 60.0) -> Iterator[None]:
    """Hold `lock_path` for the block. The file stays on disk: removing it would let two holders in."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, lock_path, timeout_seconds)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # Closing the descriptor releases the lock.
        os.close(descriptor)


def _acquire(descriptor: int, lock_path: Path, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise LockBusyError(
                    f"{lock_path} is held by process {holder} for more than {timeout_seconds:.0f} s: "
                    "wait for it to finish, or end that process and try again"
                ) from None
        time.sleep(_RETRY_SECONDS)
