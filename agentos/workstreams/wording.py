"""Workstreams in words for people, wherever they are shown."""

from __future__ import annotations

from agentos.clock import local_minute
from agentos.text.words import one_line
from agentos.workstreams.state import Running, State, Workstream, status_word

_EVENT_WORDS = {
    "start": "started",
    "pause": "asked to pause",
    "reach_pause": "paused",
    "resume": "resumed",
    "release": "run ended",
    "complete": "completed",
    "fail": "failed",
}
"""Requests as they are called on disk, and what became of them."""
_UNITS = ("B", "KB", "MB", "GB", "TB")


def last_event_words(workstream: Workstream) -> str:
    return f"{event_words(workstream.last_event)} {local_minute(workstream.changed_at)}"


def event_words(event: str) -> str:
    return _EVENT_WORDS.get(event) or one_line(event.replace("_", " "), 60)


def state_words(state: State) -> str:
    """One word, and a hint when a wish to pause waits for the next node."""
    return "pausing" if isinstance(state, Running) and state.pause_requested else status_word(state)


def size_words(size_bytes: int | None) -> str:
    """`1.2 MB`; nothing when it is not known."""
    if size_bytes is None:
        return ""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"
