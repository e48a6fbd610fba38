"""What the live block of a terminal shows of a run: follows its events, and draws them when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from agentos.clock import utc_now
from agentos.dashboard.block import ITEM, MOST_DOTS, Line, block
from agentos.dashboard.view import RunFold
from agentos.events import CallEnded, NodeStarted, Stamped
from agentos.reporters.bottom import DrawnLine
from agentos.reporters.painting import Painter
from agentos.reporters.progress import Progress
from agentos.text.words import dollars

LEAST_ROWS: Final = 10
"""A window of fewer rows has no room for a block above which something can still be read."""


class LiveRun:
    """Holds the running items alone, however many the run is about."""

    def __init__(
        self,
        painter: Painter,
        progress: Progress,
        stages: Sequence[str] = (),
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Without `stages`, the nodes that this run's items have come to, in the order they did first."""
        self._painter = painter
        self._progress = progress
        self._stages = list(stages)
        self._learns_stages = not stages
        self._clock = clock
        self._fold = RunFold(only_running=True)
        self._tokens = 0
        self._cost_usd = 0.0

    def note(self, stamped: Stamped) -> None:
        self._fold.add(stamped)
        match stamped.event:
            case NodeStarted(node=node) if self._learns_stages and node not in self._stages:
                # One too many is known as such: then there are no dots.
                self._stages += [node] if len(self._stages) <= MOST_DOTS else []
            case CallEnded(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost):
                self._tokens += tokens_in + tokens_out
                self._cost_usd += cost

    def lines(self, columns: int, rows: int, now: float) -> list[DrawnLine]:
        """At most half of the window: the other half is for what has ended."""
        view = self._fold.view(is_live=True, now=self._clock())
        bar = self._progress.bar_line(now, columns, self._spent())
        return [self._drawn(line) for line in block(view, bar, columns, max(1, rows // 2), self._stages)]

    def _spent(self) -> list[str]:
        tokens = [f"{self._tokens:,} tokens"] if self._tokens else []
        return [*([dollars(self._cost_usd)] if self._cost_usd else []), *tokens]

    def _drawn(self, line: Line) -> DrawnLine:
        colour = self._painter.label_style(line.label)
        painted = [
            self._painter.paint(colour if each.style == ITEM else each.style, each.text) for each in line.pieces
        ]
        return DrawnLine("".join(painted), line.width)
