"""A locked file says that its process lives: the lock ends with the process, so that a kill needs no timeout."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - Windows, where nobody can tell
    fcntl = None  # type: ignore[assignment]

from agentos.files import PRIVATE_DIR_MODE, PRIVATE_FILE_MODE

RETRY_SECONDS = 0.01
TURN_TRIES, TURN_PAUSE_SECONDS = 100, 0.001


def appear(folder: Path, name: str) -> int:
    """Say that this process lives, until the descriptor is closed. Raises OSError where the folder cannot be used.

    Whoever looks just now who lives may have the file locked, or take it for one that a dead process has left.
    """
    folder.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    path = folder / name
    while True:
        with suppress(BlockingIOError):
            descriptor = held_lock(path)
            if is_at(descriptor, path):
                return descriptor
            os.close(descriptor)
        time.sleep(RETRY_SECONDS)


def living(folder: Path, *, but: str) -> set[str]:
    """Others that have appeared and live. What the dead have left is removed."""
    found = set()
    for path in folder.iterdir():
        if path.name == but:
            continue
        try:
            os.close(held_lock(path))
        except BlockingIOError:
            found.add(path.name)
        except OSError:
            continue
        else:
            path.unlink(missing_ok=True)
    return found


def held_lock(path: Path) -> int:
    """Held until the descriptor is closed, at the latest by the end of the process. Raises BlockingIOError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def begin_turn(descriptor: int) -> bool:
    """Lock an open file that everybody locks for far less than a millisecond.

    False when it stays locked, by a process that was suspended just then: nobody waits for that one.
    """
    for _ in range(TURN_TRIES if fcntl is not None else 0):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(TURN_PAUSE_SECONDS)
    return fcntl is None


def end_turn(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
