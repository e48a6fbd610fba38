"""Files only their owner may read: written whole or not at all, and changed under a lock."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock; one writer at a time is then the user's business.
    fcntl = None  # type: ignore[assignment]

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIR_MODE = 0o700


def write_private(path: Path, text: str) -> None:
    """Replace the file's content, mode 0600. After a crash it holds the old content or the new, never a part."""
    path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    temporary = _write_beside(path, text)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def create_private(path: Path, text: str) -> bool:
    """Create the file with its content, mode 0600. False if it exists; then nothing changes."""
    path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    temporary = _write_beside(path, text)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that guards `path`, in a file beside it. Ends with the process, however that ends."""
    path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write_beside(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
