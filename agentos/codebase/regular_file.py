"""Reads files of a project that others wrote: no links, no pipes, no more than asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_regular(path: Path, limit_bytes: int, *, follow_link: bool = False) -> bytes:
    """The file's first `limit_bytes`. OSError when it cannot be read or is not a regular file; never blocks."""
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
