"""How wide the window is that somebody reads in."""

from __future__ import annotations

import os
import shutil
import sys
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
    try:
        return os.get_terminal_size(descriptor).columns
    except OSError:
        return shutil.get_terminal_size().columns
