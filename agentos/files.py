"""Files that are whole or absent, private where they must be, and changed under a lock."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from agentos.errors import AgentosError

try:
    import fcntl
except ImportError:  # Windows has no flock; one writer at a time is then the user's business.
    fcntl = None  # type: ignore[assignment]

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIR_MODE = 0o700
_USUAL_FILE_MODE = 0o666
"""Less what the user's umask takes away."""
_MOST_BYTES_OF_A_CHARACTER = 4
_LOCK_RETRY_SECONDS = 0.02
_LEAST_AGE_SECONDS = 60.0
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


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


def hold_dir(directory: Path) -> int:
    """Mark the folder as in use for as long as the returned descriptor is open: however its process dies."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_tree(directory: Path) -> None:
    """Remove a folder with all in it, even where it is too deep for a path or closed to us. What cannot go stays.

    No link is followed, nor one in the folder's own place. Each folder is moved up to the top before it is emptied.
    """
    with contextlib.suppress(OSError):
        if directory.is_symlink():
            return
        directory.chmod(PRIVATE_DIR_MODE)
        top = os.open(directory, _FOLDER)
        try:
            waiting = _emptied(top, top)
            while waiting:
                name = waiting.pop()
                with contextlib.suppress(OSError):
                    folder = os.open(name, _FOLDER, dir_fd=top)
                    try:
                        waiting += _emptied(folder, top)
                    finally:
                        os.close(folder)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        directory.rmdir()


def _emptied(folder: int, top: int) -> list[str]:
    """Remove files of a folder and move its folders to the top; their names there."""
    moved = []
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                name = os.urandom(8).hex()
                # Only what may be written can be moved.
                os.chmod(entry.name, PRIVATE_DIR_MODE, dir_fd=folder)
                os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return moved


def files_below(directory: Path, enters: Callable[[str], bool] = lambda _name: True) -> Iterator[os.DirEntry[str]]:
    """Whatever is no folder, as deep as a path leads; links are not followed, what cannot be read is passed over.

    `enters` is asked which folders to look into, by their names.
    """
    folders = [os.fspath(directory)]
    while folders:
        entries: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as found:
            entries = list(found)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif enters(entry.name):
                folders.append(entry.path)


def remove_left(directories: Iterable[Path], now: float) -> None:
    """Remove folders that somebody has held who is dead."""
    for directory in directories:
        with contextlib.suppress(OSError):
            # One that is just being made is not held yet.
            if now - directory.lstat().st_mtime > _LEAST_AGE_SECONDS:
                descriptor = os.open(directory, _FOLDER)
                try:
                    if fcntl is not None:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(directory)
                finally:
                    os.close(descriptor)


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


def read_regular_text(path: Path, limit_characters: int) -> str:
    """The first `limit_characters` of a text file of the user's own, which may be a link; never blocks.

    OSError when it cannot be read or is not a regular file, UnicodeDecodeError when it is not UTF-8.
    """
    data = read_regular(path, limit_characters * _MOST_BYTES_OF_A_CHARACTER, follow_link=True)
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read(limit_characters)


@contextlib.contextmanager
def open_record(path: Path) -> Iterator[BinaryIO]:
    """For reading a file that may not be one: what is no regular file is as good as none, and is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a regular file", str(path))
        yield file


@contextlib.contextmanager
def locked(lock_path: Path, *, timeout_seconds: float = 60.0) -> Iterator[int]:
    """Hold `lock_path` for the block, one thread of one process at a time. The kernel gives it back when we die.

    Yields its descriptor: a child that inherits it holds the lock too, until it ends. The file stays on disk:
    removing it would let two holders in. Raises LockBusyError after the timeout.
    """
    lock_path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    try:
        _acquire(descriptor, lock_path, timeout_seconds)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
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
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
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
