"""What stays at the bottom of a terminal while lines go by above it: one line of status, or a block of several.

Neither hides the cursor nor changes a mode of the terminal for longer than a frame: whatever ends the process, the
terminal stays usable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

REDRAW_SECONDS: Final = 0.1
CLOCK_SECONDS: Final = 1.0
LEAST_ROWS: Final = 10
"""A window of fewer rows has no room for a block above which something can still be read."""
_FRAME_BEGINS: Final = b"\x1b[?2026h"
_FRAME_ENDS: Final = b"\x1b[?2026l"
"""Terminals that know these show what is between them at once; others ignore them."""


class Bottom(Protocol):
    """Gives the bytes to write; writes nothing itself."""

    is_stale: bool
    """What is drawn is not how things are."""
    drawn_at: float

    def redrawn(self, now: float, above: bytes = b"") -> bytes:
        """What puts `above` over a fresh drawing. Nothing when nothing would change."""
        ...

    def repeated(self, above: bytes) -> bytes:
        """What puts `above` over the drawing as it was, now or with the next fresh one."""
        ...

    def erased(self) -> bytes:
        """What takes the drawing away, with the cursor where it began, and leaves nothing unsaid above it."""
        ...

    def forget(self) -> None:
        """Others have written to the terminal: the drawing is no longer where it was."""
        ...


class StatusLine:
    """The last line of the terminal. The cursor stands behind it."""

    def __init__(self, status: Callable[[int, float], str], columns: Callable[[], int]) -> None:
        """`status(columns, now)`; `columns` is asked at every drawing."""
        self._status = status
        self._columns = columns
        self._text = ""
        self.is_stale = False
        self.drawn_at = -math.inf

    def redrawn(self, now: float, above: bytes = b"") -> bytes:
        # The last column stays free: terminals differ in what a full line does to the cursor.
        text = self._status(self._width() - 1, now)
        self.is_stale, self.drawn_at = False, now
        if text == self._text and not above:
            return b""
        erased = self.erased()
        self._text = text
        return erased + above + text.encode(errors="replace")

    def repeated(self, above: bytes) -> bytes:
        return self.erased() + above + self._text.encode(errors="replace")

    def erased(self) -> bytes:
        if not self._text:
            return b""
        # In a window made narrower since, the line has become several.
        return _up((len(self._text) - 1) // self._width()) + b"\r\x1b[J"

    def forget(self) -> None:
        self._text = ""
        self.is_stale = True

    def _width(self) -> int:
        return max(2, self._columns() or 80)


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """A line of a block, and how many columns it takes."""

    text: str
    width: int


class LiveBlock:
    """Some lines, with the cursor on the empty line below: what is written there by others begins a line of its own.

    Lines for above it wait for the next drawing, so that there are never more drawings than the rate allows.
    """

    def __init__(
        self,
        lines: Callable[[int, int, float], Sequence[DrawnLine]],
        window: Callable[[], tuple[int, int]],
        *,
        may_draw: Callable[[], bool],
        typed_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`lines(columns, rows, now)`. `may_draw`: the terminal is ours and keeps up, else the block stays away.

        `typed_bytes`: how much of whole lines somebody typed and nobody has read. The terminal shows each Enter by
        moving the cursor down.
        """
        self._lines = lines
        self._window = window
        self._may_draw = may_draw
        self._typed_bytes = typed_bytes
        self._typed = 0
        self._drawn: tuple[DrawnLine, ...] = ()
        self._above: list[bytes] = []
        self.is_stale = False
        self.drawn_at = -math.inf

    def redrawn(self, now: float, above: bytes = b"") -> bytes:
        columns, rows = self._window()
        is_shown = self._may_draw()
        # The last column stays free: terminals differ in what a full line does to the cursor.
        lines = tuple(self._lines(columns - 1, rows, now)) if is_shown else ()
        # Until the terminal keeps up or is ours again, somebody has to look again.
        self.is_stale, self.drawn_at = not is_shown, now
        if lines == self._drawn and not above and not self._above and self._typed_bytes() <= self._typed:
            return b""
        cleared = self._cleared(columns) + self._waiting() + above
        self._drawn = lines
        drawn = "".join(f"{line.text}\n" for line in lines).encode(errors="replace")
        return _FRAME_BEGINS + cleared + drawn + _FRAME_ENDS

    def repeated(self, above: bytes) -> bytes:
        self._above.append(above)
        self.is_stale = True
        return b""

    def erased(self) -> bytes:
        cleared = self._cleared(self._window()[0]) + self._waiting()
        self._drawn = ()
        return cleared

    def forget(self) -> None:
        self._drawn = ()
        self.is_stale = True

    def _cleared(self, columns: int) -> bytes:
        """A window made narrower since has broken each line that is too wide into several."""
        entered = self._entered_rows()
        if not self._drawn:
            return b""
        drawn = sum(max(1, math.ceil(line.width / columns)) for line in self._drawn)
        return _up(drawn + entered) + b"\r\x1b[J"

    def _entered_rows(self) -> int:
        """One at most: where typed lines end is not known, and a line above is worth more than an empty row."""
        before, self._typed = self._typed, self._typed_bytes()
        return int(self._typed > before)

    def _waiting(self) -> bytes:
        waiting = b"".join(self._above)
        self._above.clear()
        return waiting


def _up(rows: int) -> bytes:
    return f"\x1b[{rows}A".encode() if rows else b""
