"""Where a reporter's bytes go."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """Takes bytes at once and never blocks the loop; how they reach the reader is the sink's own business."""

    def write(self, data: bytes, /) -> object: ...
