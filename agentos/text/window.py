"""How wide the window is that somebody reads in."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import termios
from typing import Final

from agentos.environment import environment

UNLIMITED_COLUMNS: Final = 1_000_000


def window_columns() -> int:
    """The width of the window behind standard output; in a pipe, no limit."""
    if not sys.stdout.isatty() and "COLUMNS" not in environment():
        return UNLIMITED_COLUMNS
    return shutil.get_terminal_size().columns


def columns_of(descriptor: int) -> int:
    """The width of the window behind this descriptor now."""
    return _size_of(descriptor).columns


def window_of(descriptor: int) -> tuple[int, int]:
    """Columns and rows of the window behind this descriptor now. One that does not know counts as 80 by 24."""
    columns, rows = _size_of(descriptor)
    return max(2, columns or 80), rows or 24


def typed_bytes(descriptor: int) -> int:
    """How much of whole lines somebody typed into this terminal and nobody has read."""
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)


def _size_of(descriptor: int) -> os.terminal_size:
    try:
        return os.get_terminal_size(descriptor)
    except OSError:
        return shutil.get_terminal_size()
