"""How commands write: documents of other people made safe for a terminal, data as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Final

from agentos.text.terminal import clean_block

UNLIMITED_COLUMNS: Final = 1_000_000


def window_columns() -> int:
    """The window's width; in a pipe, no limit."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return UNLIMITED_COLUMNS
    return shutil.get_terminal_size().columns


def say(text: str) -> None:
    """Text and a newline. Colours and control characters of untrusted parts must have been taken out before."""
    sys.stdout.write(f"{text}\n")


def say_document(text: str) -> None:
    """A whole document, without anything that would move a terminal's cursor or change its colours."""
    cleaned = clean_block(text.rstrip("\n").encode(errors="replace") + b"\n", keep_colour=False)
    sys.stdout.write(cleaned.decode(errors="replace"))


def say_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")
