"""The title of the terminal's window while a run is under way: `agentos 5/10`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from agentos.events import Stamped
from agentos.reporters.progress import Progress
from agentos.reporters.sink import Sink

_SECONDS_BETWEEN: Final = 0.5
_KEEP: Final = b"\x1b[22;2t"
_RESTORE: Final = b"\x1b]2;\x07\x1b[23;2t"
"""Terminals that cannot keep a title get an empty one: then they show their own again."""


class WindowTitle:
    """Sets the title as items end, at most twice a second, and gives the window its own back."""

    def __init__(self, sink: Sink, progress: Progress, clock: Callable[[], float]) -> None:
        """The progress is somebody else's to follow."""
        self._sink = sink
        self._progress = progress
        self._clock = clock
        self._shown = ""
        self._shown_at = -math.inf

    def handle(self, _stamped: Stamped) -> None:
        progress, now = self._progress, self._clock()
        text = f"agentos {progress.ended}/{progress.total}"
        if not progress.total or text == self._shown or now < self._shown_at + _SECONDS_BETWEEN:
            return
        kept = b"" if self._shown else _KEEP
        self._sink.write(kept + f"\x1b]2;{text}\x07".encode())
        self._shown, self._shown_at = text, now

    def restore(self) -> None:
        """It is set again with the next event."""
        if self._shown:
            self._sink.write(_RESTORE)
            self._shown = ""
