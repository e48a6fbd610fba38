"""How long an item has really been working: waiting for a key and being suspended do not count. Pure."""

from __future__ import annotations


class ItemClock:
    """Times are whatever the caller's monotonic clock says."""

    def __init__(self, now: float) -> None:
        self.started = now
        self._counts_from = now
        self._paused_seconds = 0.0
        self._paused_since: float | None = None

    @property
    def is_paused(self) -> bool:
        return self._paused_since is not None

    def pause(self, since: float) -> None:
        """Time from `since` on does not count, unless an earlier pause took it. A paused clock stays as it is."""
        if self._paused_since is None:
            self._paused_since = max(since, self._counts_from)

    def go_on(self, now: float) -> None:
        if self._paused_since is not None:
            self._paused_seconds += max(0.0, now - self._paused_since)
            self._paused_since = None
            self._counts_from = now

    def worked_seconds(self, now: float) -> float:
        paused_now = 0.0 if self._paused_since is None else max(0.0, now - self._paused_since)
        return max(0.0, now - self.started - self._paused_seconds - paused_now)
