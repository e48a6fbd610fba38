"""What a run's console is asked to tell."""

from __future__ import annotations

from enum import StrEnum


class OutputMode(StrEnum):
    """What `--output-mode` takes."""

    LIVE = "live"
    STREAM = "stream"
    QUIET = "quiet"
