"""Claims: which run holds which item.

On one machine the kernel keeps them, and forgets one when its last holder is dead. Where checkpoints are in a
database that machines share, so are claims, beside the kernel's: see `postgres_claims.py`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from agentos.database import database_of
from agentos.engine.checkpoints import session_of
from agentos.files import remove_empty
from agentos.paths import checkpoints_dir

# Open-file-description locks follow the descriptor into workers: an item stays claimed until its worker is gone too,
# even when the coordinator is killed. Where they are missing, ordinary record locks hold for the coordinator alone.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK)
_GET_LOCK = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)
_FLOCK_STRUCT = struct.Struct("hhqqi4x")


class Claims(Protocol):
    """The items of one project that this process has. Safe to use from the run's loop alone."""

    def fileno(self) -> int:
        """For workers to inherit: what they hold is not taken as long as they live."""

    def take(self, name: str) -> bool:
        """False when another run, or a worker of a run that just died, holds it."""

    def holder(self, name: str) -> str:
        """Who holds what was refused, in words; empty where only the records of runs tell."""

    def next_fence(self, name: str) -> int:
        """For the next attempt at an item that was taken: from here on, earlier attempts can write no more.

        0 where the kernel keeps attempts apart. Raises FenceRefused when the item has passed to somebody else.
        """

    def give_back(self, name: str) -> None: ...

    def discard(self) -> None:
        """Nothing was claimed for long: leave nothing behind that was not there before, unless somebody uses it."""

    def close(self) -> None: ...

    def __enter__(self) -> Claims: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def claims_of(project_dir: Path, run_id: str = "") -> Claims:
    """The claims of a project, where its checkpoints are. `run_id` is what others are told of the holder."""
    local = FileClaims(_lock_path(project_dir))
    database = database_of(project_dir)
    if database is None:
        return local
    from agentos.engine.postgres_claims import PostgresClaims  # noqa: PLC0415  Few have a database.

    return PostgresClaims(local, session_of(database), run_id=run_id)


def held_here(project_dir: Path, names: Iterable[str]) -> set[str]:
    """Those that a run on this machine has at this moment. It only asks: nothing is taken, made or written."""
    try:
        descriptor = os.open(_lock_path(project_dir), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return set()
    try:
        return {name for name in names if _is_locked(descriptor, _place_of(name))}
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, place: int) -> bool:
    asked = _FLOCK_STRUCT.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    kind, *_ = _FLOCK_STRUCT.unpack(fcntl.fcntl(descriptor, _GET_LOCK, asked))
    return bool(kind != fcntl.F_UNLCK)


def _lock_path(project_dir: Path) -> Path:
    return checkpoints_dir(project_dir) / "claims.lock"


class FileClaims:
    """One lock file; each name that is claimed is one byte of it."""

    def __init__(self, lock_path: Path) -> None:
        self._path = lock_path
        self._is_ours = not lock_path.exists()
        self._fd = self._open()

    @property
    def path(self) -> Path:
        return self._path

    def fileno(self) -> int:
        return self._fd

    def take(self, name: str) -> bool:
        is_taken = self._lock(fcntl.F_WRLCK, _place_of(name), 1)
        if is_taken and not os.fstat(self._fd).st_nlink:
            # `discard` came before our first lock: others use a new file by now.
            fresh = self._open()
            os.dup2(fresh, self._fd, inheritable=False)
            os.close(fresh)
            return self.take(name)
        return is_taken

    def holder(self, name: str) -> str:
        return ""

    def next_fence(self, name: str) -> int:
        return 0

    def discard(self) -> None:
        if self._is_ours and self._lock(fcntl.F_WRLCK, 0, 0):
            with suppress(OSError):
                self._path.unlink()
                remove_empty(self._path.parent)
            self._lock(fcntl.F_UNLCK, 0, 0)

    def give_back(self, name: str) -> None:
        self._lock(fcntl.F_UNLCK, _place_of(name), 1)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> FileClaims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _lock(self, kind: int, start: int, length: int) -> bool:
        """A length of 0 is everything."""
        try:
            fcntl.fcntl(self._fd, _SET_LOCK, _FLOCK_STRUCT.pack(kind, os.SEEK_SET, start, length, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


def _place_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


def claim_name(workflow: str, item_id: str) -> str:
    """What an item of a workflow is claimed as."""
    return f"{workflow}/{item_id}"


Holders = Callable[[], Mapping[str, str]]
"""Items that living runs have, and which run."""


def take_claims(
    claims: Claims, names: Mapping[str, str], holders: Holders, *, patience_seconds: float = 5.0
) -> dict[str, str]:
    """Claim items (id to claim name). Returns those that somebody else holds, with who does.

    What no living run has is held by a worker that is about to die with its coordinator: wait for it. Empty stands
    for one that does not die in time.
    """
    deadline = time.monotonic() + patience_seconds
    refused = [item_id for item_id, name in names.items() if not claims.take(name)]
    held: dict[str, str] = {}
    while refused:
        living = holders()
        held = {item_id: living.get(item_id) or claims.holder(names[item_id]) for item_id in refused}
        if all(held.values()) or time.monotonic() >= deadline:
            return held
        time.sleep(0.05)
        refused = [item_id for item_id in refused if not claims.take(names[item_id])]
    return {}
