"""What the live block of a terminal shows of a run: follows its events, and draws them when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from agentos.clock import utc_now
from agentos.dashboard.block import ITEM, MOST_DOTS, Line, block
from agentos.dashboard.fold import RunFold
from agentos.dashboard.view import RunView
from agentos.events import CallFinished, Event, ItemEnded, ItemRetried, ItemStarted, NodeStarted, RunStarted, Stamped
from agentos.reporters.painting import Painter
from agentos.reporters.progress import Progress
from agentos.reporters.terminal_bottom import DrawnLine
from agentos.text.words import dollars


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
        self._run: tuple[Stamped, RunStarted] | None = None
        self._folds: dict[str, RunFold] = {}
        self._tokens = 0
        self._cost_usd = 0.0

    def note(self, stamped: Stamped) -> None:
        event = stamped.event
        match event:
            case RunStarted():
                self._run = stamped, event
            case ItemStarted(item_id=item_id):
                self._folds[item_id] = self._fold_of(item_id)
            case ItemEnded(item_id=item_id) | ItemRetried(item_id=item_id):
                self._folds.pop(item_id, None)
        fold = self._folds.get(getattr(event, "item_id", ""))
        if fold is not None:
            fold.add(stamped)
        self._learn(event)

    def _fold_of(self, item_id: str) -> RunFold:
        """Of this item alone: a run of very many is not held twice."""
        fold = RunFold()
        if self._run is not None:
            stamped, started = self._run
            fold.add(replace(stamped, event=replace(started, items=(item_id,), titles=())))
        return fold

    def _learn(self, event: Event) -> None:
        match event:
            case NodeStarted(node=node) if self._learns_stages and node not in self._stages:
                # One too many is known as such: then there are no dots.
                self._stages += [node] if len(self._stages) <= MOST_DOTS else []
            case CallFinished(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost):
                self._tokens += tokens_in + tokens_out
                self._cost_usd += cost

    def lines(self, columns: int, rows: int, now: float) -> list[DrawnLine]:
        """At most half of the window: the other half is for what has ended."""
        moment = self._clock()
        views = [fold.view(is_live=True, now=moment) for fold in self._folds.values()]
        items = {item.id: item for view in views for item in view.running}
        view = RunView(items=items, elapsed=max((view.elapsed for view in views), default=0.0))
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
