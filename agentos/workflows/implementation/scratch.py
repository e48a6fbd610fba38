"""Folders for one test run, that go with it: at once, or after a kill with the next one that is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIXES: Final = ("agentos-tests-", "agentos-suite-")
_LEAST_AGE_SECONDS: Final = 60.0
"""A folder that is just being made is not locked yet."""


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """An empty folder. What killed processes left of such folders is removed on the way."""
    sweep(Path(tempfile.gettempdir()), now=time.time())
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as directory:
        path = Path(directory).resolve()
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The kernel gives the lock back when this process dies, however it does.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
        finally:
            os.close(descriptor)


def sweep(directory: Path, *, now: float) -> None:
    """Remove folders of ours whose process is dead."""
    for prefix in PREFIXES:
        for path in directory.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                if now - path.lstat().st_mtime > _LEAST_AGE_SECONDS:
                    _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
