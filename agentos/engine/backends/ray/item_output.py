"""What an item's worker has written on its node, for people: the node knows no secret, and one may span blocks."""

from __future__ import annotations

from collections.abc import Callable

from agentos.engine.backends.output_lines import OutputLines
from agentos.engine.loop import Loop, Timer
from agentos.keys.redaction import Redactor

_REST_SECONDS = 0.2
"""How long what may be the beginning of a secret waits for the rest of it."""


class ItemOutput:
    """Of one worker, from its start to its end."""

    def __init__(self, loop: Loop, redactor: Redactor, show: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._lines = OutputLines(redactor, keep_colour=True)
        self._show = show
        self._timer: Timer | None = None

    def wrote(self, block: bytes) -> None:
        self._pass_on(self._lines.feed(block))
        self._stop_waiting()
        if self._lines.has_partial:
            self._timer = self._loop.after(_REST_SECONDS, self.show_rest)

    def show_rest(self) -> None:
        """As far as it is no secret."""
        self._pass_on(self._lines.flush_partial())

    def end(self) -> None:
        self._stop_waiting()
        self._pass_on(self._lines.finish())

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pass_on(self, block: bytes) -> None:
        if block:
            self._show(block)
