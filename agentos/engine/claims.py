"""Claims: which run holds which item. The kernel forgets a claim when its last holder is dead."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from agentos.files import remove_empty
from agentos.paths import checkpoints_dir

# Open-file-description locks follow the descriptor into workers: an item stays claimed until its worker is gone too,
# even when the coordinator is killed. Where they are missing, ordinary record locks hold for the coordinator alone.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK)
_FLOCK_STRUCT = struct.Struct("hhqqi4x")


class Claims:
    """One lock file per project; each item is one byte of it."""

    def __init__(self, lock_path: Path) -> None:
        self._path = lock_path
        self._is_ours = not lock_path.exists()
        self._fd = self._open()

    @classmethod
    def of_project(cls, project_dir: Path) -> Claims:
        return cls(checkpoints_dir(project_dir) / "claims.lock")

    def fileno(self) -> int:
        """For workers to inherit."""
        return self._fd

    def take(self, name: str) -> bool:
        """False when another run, or a worker of a run that just died, holds it."""
        is_taken = self._lock(fcntl.F_WRLCK, _place_of(name), 1)
        if is_taken and not os.fstat(self._fd).st_nlink:
            # `discard` came before our first lock: others use a new file by now.
            fresh = self._open()
            os.dup2(fresh, self._fd, inheritable=False)
            os.close(fresh)
            return self.take(name)
        return is_taken

    def discard(self) -> None:
        """Nothing was claimed for long: leave no file behind that was not there before, unless somebody uses it."""
        if self._is_ours and self._lock(fcntl.F_WRLCK, 0, 0):
            with suppress(OSError):
                self._path.unlink()
                remove_empty(self._path.parent)
            self._lock(fcntl.F_UNLCK, 0, 0)

    def give_back(self, name: str) -> None:
        self._lock(fcntl.F_UNLCK, _place_of(name), 1)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Claims:
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
    """Claim items (id to claim name). Returns those that somebody else holds, with the run that does.

    What no living run has is held by a worker that is about to die with its coordinator: wait for it. Empty stands
    for one that does not die in time.
    """
    deadline = time.monotonic() + patience_seconds
    refused = [item_id for item_id, name in names.items() if not claims.take(name)]
    held: dict[str, str] = {}
    while refused:
        living = holders()
        held = {item_id: living.get(item_id, "") for item_id in refused}
        if all(held.values()) or time.monotonic() >= deadline:
            return held
        time.sleep(0.05)
        refused = [item_id for item_id in refused if not claims.take(names[item_id])]
    return {}
