"""Server-sent events: what changed of a run, of an item's log, and of the list of runs, until it is over.

Patches are states and not steps: whoever reconnects with the last id gets all that changed since, once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from agentos.dashboard.payload import patch, run_page, timeline
from agentos.dashboard.view import RunView
from agentos.page.feed import RunFeed
from agentos.page.logs import LogTail
from agentos.page.mask import Mask, encoded

BEAT_SECONDS: Final = 5.0
"""At least so often something is sent: what changes by the clock alone, and whether the reader is still there."""


class RunStream:
    """What one reader of a run is sent."""

    def __init__(
        self, feed: RunFeed, patches: Patches, mask: Mask, *, since: int, may_control: bool, log: LogTail | None
    ) -> None:
        self._feed = feed
        self._patches = patches
        self._mask = mask
        self._since = since
        self._may_control = may_control
        self._log = log
        self._version = -1

    async def events(self) -> AsyncIterator[bytes]:
        async with self._feed.followed():
            yield b"retry: 1000\n\n"
            yield await self._first()
            while True:
                for event in self._log_events():
                    yield event
                if self._is_over:
                    await self._feed.look_again()
                    if self._feed.version != self._version:
                        yield await self._next()
                    yield self._event("end", {"reason": self._reason})
                    return
                await self._feed.next_version(self._version, BEAT_SECONDS)
                yield await self._next()

    async def _first(self) -> bytes:
        async with self._feed.up_to_date() as view:
            if 0 < self._since <= view.last_sequence:
                return self._patched(view, 0)
            around = self._feed.around(may_control=self._may_control)
            document = run_page(view, around) | {"blocks": timeline(view)["blocks"]}
            self._since, self._version = view.last_sequence, self._feed.version
            return self._event("snapshot", document)

    async def _next(self) -> bytes:
        async with self._feed.as_tailed() as view:
            return self._patched(view, self._version)

    def _patched(self, view: RunView, version: int) -> bytes:
        body = self._patches.since(self._feed, view, self._since, version, may_control=self._may_control)
        self._since, self._version = view.last_sequence, self._feed.version
        return self._framed("patch", body)

    def _log_events(self) -> list[bytes]:
        return [self._event("log", chunk) for chunk in self._log.chunks()] if self._log else []

    @property
    def _is_over(self) -> bool:
        return self._feed.view.is_over

    @property
    def _reason(self) -> str:
        return "done" if self._feed.view.exit_code is not None else "lost"

    def _event(self, name: str, document: Any) -> bytes:
        return self._framed(name, encoded(document, self._mask))

    def _framed(self, name: str, body: bytes) -> bytes:
        offset = self._log.offset if self._log else 0
        return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (self._since, offset, name.encode(), body)


class Patches:
    """The patches of one feed, each made once for all readers who are as far."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._made: dict[tuple[int, int, bool], bytes] = {}
        self._of: tuple[int, int] = (-1, -1)

    def since(self, feed: RunFeed, view: RunView, sequence: int, version: int, *, may_control: bool) -> bytes:
        """All that changed since a record and, of last lines, since a version of the feed."""
        now = feed.version, int(view.elapsed)
        if now != self._of:
            self._made.clear()
            self._of = now
        key = sequence, version, may_control
        if key not in self._made:
            around = feed.around(may_control=may_control)
            document = patch(view, around, sequence, feed.lines_changed_since(version))
            self._made[key] = encoded(document, self._mask)
        return self._made[key]
