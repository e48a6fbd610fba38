"""The last lines of a stream, in bounded memory. Pure."""

from __future__ import annotations

from typing import Final

MOST_LINES: Final = 10
MOST_BYTES: Final = 4096
_INSIDE_A_CHARACTER: Final = bytes(range(0x80, 0xC0))
"""Of UTF-8."""


class Tail:
    """Takes whole lines, each ended by a newline, and keeps the last of them."""

    def __init__(self, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._kept = b""

    def add(self, block: bytes) -> None:
        kept = (self._kept + block[-self._most_bytes :])[-self._most_bytes :]
        is_cut = len(self._kept) + len(block) > self._most_bytes
        if is_cut and b"\n" in kept[:-1]:
            kept = kept[kept.index(b"\n") + 1 :]  # Half a line tells less than those after it.
        elif is_cut:
            kept = kept.lstrip(_INSIDE_A_CHARACTER)
        self._kept = b"".join(kept.splitlines(keepends=True)[-self._most_lines :])

    def block(self) -> bytes:
        return self._kept
