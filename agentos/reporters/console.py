"""The console: events in words for people, worker output under its label, and the progress of the run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from agentos.events import (
    CustomWritten,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    OutputProduced,
    RunEnded,
    RunStarted,
    Stamped,
    StopRequested,
)
from agentos.reporters.output_mode import OutputMode
from agentos.reporters.painting import Painter
from agentos.reporters.progress import Progress
from agentos.reporters.sink import Sink
from agentos.reporters.summary import Summary, shown_counts, summary_lines
from agentos.reporters.terminal_bottom import CLOCK_SECONDS, REDRAW_SECONDS, Bottom, StatusLine
from agentos.reporters.told import is_told
from agentos.reporters.wording import COORDINATOR, LabelOf, dry_run_lines, labels_with, lines
from agentos.text.output_prefixer import prefix_block, prefix_of
from agentos.text.tail import Tail
from agentos.text.terminal import clean_block
from agentos.text.terminal_kind import wants_colour
from agentos.text.thread_output import unprefixed_stdout

__all__ = ["ConsoleReporter", "PrintingListener", "Sink", "dry_run_lines", "lines", "wants_colour"]

MOST_PROGRESS_LINES = 100
_UNLIMITED = 1_000_000


class PrintingListener:
    """The listener of a coordinator that was given none: prints each event's lines."""

    def __init__(self, label_of: LabelOf = str) -> None:
        self._label_of = label_of

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._label_of = labels_with(event.label_prefix)
        self._print(lines(event, self._label_of))

    def dry_run(self, item_ids: Iterable[str]) -> None:
        """Print what would run."""
        self._print(dry_run_lines(item_ids, self._label_of))

    def _print(self, texts: Iterable[str]) -> None:
        for text in texts:
            print(text, file=unprefixed_stdout())


class ConsoleReporter:
    """Turns events into bytes for a terminal or a pipe.

    On a terminal the progress stays at the bottom: call `tick` when `next_tick` says so. In a pipe it is a plain line
    each time an item ends. `clock` and `tick` share one monotonic time base; `columns` is asked at every drawing.
    With `run_dir` the summary names the logs; with `shows_node` labels name the cluster's node that an item is on.
    `bottom` is what is drawn in place of a line of status.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        is_terminal: bool,
        columns: Callable[[], int],
        colour: bool = False,
        clock: Callable[[], float] = time.monotonic,
        run_dir: Path | None = None,
        mode: OutputMode = OutputMode.STREAM,
        painter: Painter | None = None,
        progress: Progress | None = None,
        bottom: Bottom | None = None,
        shows_node: bool = False,
    ) -> None:
        self._sink = sink
        self._colour = colour
        self._clock = clock
        self._run_dir = run_dir
        self._mode = mode
        self._painter = painter or Painter(colour=colour, run_dir=run_dir)
        self._shows_node = shows_node
        self._nodes: dict[str, str] = {}
        self._label_of: LabelOf = str
        self._progress = progress or Progress()
        self._summary = Summary()
        self._is_stopping = False
        self._shown_ended = 0
        self._shown_percent = 0
        self._tails: defaultdict[str, Tail] = defaultdict(Tail)
        is_drawn = is_terminal and mode is not OutputMode.QUIET
        self._bottom = (bottom or StatusLine(self._status, columns)) if is_drawn else None

    def handle(self, stamped: Stamped) -> None:
        event, now = stamped.event, self._clock()
        self._summary.add(stamped)
        if isinstance(event, RunStarted):
            self._label_of = self._with_node(labels_with(event.label_prefix))
        if isinstance(event, ItemStarted) and self._shows_node and event.cluster_node:
            self._nodes[event.item_id] = f"@{event.cluster_node}"
        is_news = self._progress.note(event, now)
        data = self._bytes_of(event)
        if isinstance(event, RunEnded):
            self.close()
        if self._bottom is None or not self._progress.total:
            self._write(data)
            return
        self._bottom.is_stale |= is_news
        if now >= self._bottom.drawn_at + REDRAW_SECONDS and (data or self._bottom.is_stale):
            self._write(self._bottom.redrawn(now, above=data))
        elif data:
            self._write(self._bottom.repeated(above=data))

    def _with_node(self, label_of: LabelOf) -> LabelOf:
        return lambda item_id: label_of(item_id) + self._nodes.get(item_id, "")

    def tick(self, now: float) -> None:
        """Redraw the progress if its time has come."""
        due = self.next_tick()
        if self._bottom and due is not None and now >= due:
            self._write(self._bottom.redrawn(now))

    def next_tick(self) -> float | None:
        """When `tick` has something to do; None when only an event can change what is shown."""
        bottom = self._bottom
        if bottom is None:
            return None
        if bottom.is_stale:
            return bottom.drawn_at + REDRAW_SECONDS
        return bottom.drawn_at + CLOCK_SECONDS if self._moves_by_itself else None

    def step_aside(self) -> None:
        """Leave the terminal to others for a while: nothing of ours stays at its bottom."""
        if self._bottom:
            self._write(self._bottom.erased())
            self._bottom.forget()

    def come_back(self) -> None:
        """Others have written to the terminal: the progress is drawn below that, with the next tick."""
        if self._bottom:
            self._bottom.forget()

    def close(self) -> None:
        """Leave the terminal without a progress line, also when the run never came to its end."""
        if self._bottom:
            self._write(self._bottom.erased())
            self._bottom = None

    @property
    def _moves_by_itself(self) -> bool:
        """Whether the clock alone changes what is shown."""
        is_running = self._mode is OutputMode.LIVE and self._progress.running > 0
        return is_running or self._progress.has_estimate

    def _write(self, data: bytes) -> None:
        if data:
            self._sink.write(data)

    def _status(self, columns: int, now: float) -> str:
        return self._progress.status_line(now, columns, self._label_of)

    def _bytes_of(self, event: Event) -> bytes:
        last_lines = self._last_lines(event)
        if not is_told(self._mode, event):
            return b""
        match event:
            case OutputProduced(item_id=item_id, block=block):
                return self._output(item_id, block)
            case StopRequested(at_once=False) if self._is_stopping:
                return b""
            case StopRequested():
                self._is_stopping = True
            case RunEnded():
                return self._end()
            case ItemEnded() if self._bottom is None and self._mode is not OutputMode.QUIET:
                return self._encoded([*self._worded(event), *self._progress_lines()])
        return last_lines + self._encoded(self._worded(event))

    def _last_lines(self, event: Event) -> bytes:
        """In live mode, what an item wrote last before it failed; until then it is only kept."""
        if self._mode is not OutputMode.LIVE:
            return b""
        match event:
            case OutputProduced(item_id=item_id, block=block):
                self._tails[item_id].add(block)
            case CustomWritten(item_id=item_id):
                words = "".join(f"{line.partition('] ')[2]}\n" for line in lines(event))
                self._tails[item_id].add(words.encode(errors="replace"))
            case ItemEnded(item_id=item_id) | ItemRetried(item_id=item_id):
                tail = self._tails.pop(item_id, Tail())
                is_failure = isinstance(event, ItemRetried) or event.outcome.is_failure
                return self._output(item_id, tail.block()) if is_failure else b""
        return b""

    def _end(self) -> bytes:
        last = [f"{COORDINATOR} {self._progress.line()}"] if self._bottom and self._progress.total else []
        result = self._summary.result()
        told = self._painter.summary_lines(summary_lines(result, self._run_dir), shown_counts(result))
        return self._encoded([*self._painter.lines(last), *told])

    def _worded(self, event: Event) -> list[str]:
        return self._painter.event_lines(event, lines(event, self._label_of))

    def _output(self, item_id: str, block: bytes) -> bytes:
        if not self._colour and b"\x1b" in block:
            block = clean_block(block, keep_colour=False)
        return prefix_block(self._painter.prefix(prefix_of(self._label_of(item_id))).encode(), block)

    def _progress_lines(self) -> list[str]:
        """In a pipe: one line per ended item, or one per percent when there are many."""
        progress = self._progress
        if progress.ended == self._shown_ended or not progress.total:
            return []
        self._shown_ended = progress.ended
        is_news = progress.percent != self._shown_percent or progress.ended == progress.total
        if progress.total > MOST_PROGRESS_LINES and not is_news:
            return []
        self._shown_percent = progress.percent
        return [f"{COORDINATOR} {progress.status_line(self._clock(), _UNLIMITED, self._label_of)}"]

    def _encoded(self, texts: list[str]) -> bytes:
        return "".join(f"{text}\n" for text in texts).encode(errors="replace")
