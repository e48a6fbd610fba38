"""Files that are whole or absent, private where they must be, and changed under a lock."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentos.errors import AgentosError

try:
    import fcntl
except ImportError:  # Windows has no flock; one writer at a time is then the user's business.
    fcntl = None  # type: ignore[assignment]

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIR_MODE = 0o700
_USUAL_FILE_MODE = 0o666
"""Less what the user's umask takes away."""
_LOCK_RETRY_SECONDS = 0.02


class LockBusyError(AgentosError):
    """Another process kept a lock for longer than we wait."""


def write_whole(path: Path, content: str | bytes, *, mode: int = _USUAL_FILE_MODE) -> None:
    """Replace the file's content. After a crash, also of the machine, it is the old file or the new, never a part."""
    path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    temporary = _write_beside(path, content, mode)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """`write_whole` for the owner's eyes only."""
    write_whole(path, text, mode=PRIVATE_FILE_MODE)


def create_private(path: Path, text: str) -> bool:
    """Create the file with its content, mode 0600. False if it exists; then nothing changes."""
    path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    temporary = _write_beside(path, text, PRIVATE_FILE_MODE)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def remove_all(paths: Iterable[Path]) -> None:
    """What another process has removed meanwhile, or may not be removed, is passed over."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def remove_empty(directory: Path, levels: int = 3) -> None:
    """The folder, and those around it, as far as nothing is in them."""
    with contextlib.suppress(OSError):
        for folder in (directory, *directory.parents[: levels - 1]):
            folder.rmdir()


def sync_dir(directory: Path) -> None:
    """Make names in a folder durable. Where a folder cannot be opened, a rename is as durable as it gets."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_regular(path: Path, limit_bytes: int, *, follow_link: bool = False) -> bytes:
    """The file's first `limit_bytes`. OSError when it cannot be read or is not a regular file; never blocks.

    For files that others wrote: no links, no pipes, no more than asked for.
    """
    # Non-blocking, so that opening a named pipe returns at once.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if follow_link else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit_bytes)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(lock_path: Path, *, timeout_seconds: float = 60.0) -> Iterator[None]:
    """Hold `lock_path` for the block, one thread of one process at a time. The kernel gives it back when we die.

    The file stays on disk: removing it would let two holders in. Raises LockBusyError after the timeout.
    """
    lock_path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        _acquire(descriptor, lock_path, timeout_seconds)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # Closing the descriptor releases the lock.
        os.close(descriptor)


def lock_of(path: Path) -> Path:
    """The lock that guards a file, beside it."""
    return path.with_name(f"{path.name}.lock")


def _acquire(descriptor: int, lock_path: Path, timeout_seconds: float) -> None:
    if fcntl is None:
        return
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
        time.sleep(_LOCK_RETRY_SECONDS)


def _write_beside(path: Path, content: str | bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
