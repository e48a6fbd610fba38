"""The console: events in words for people, worker output under its label, and the progress of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agentos.events import Event, ItemEnded, ItemStarted, OutputProduced, RunEnded, RunStarted, Stamped, StopRequested
from agentos.reporters.progress import Progress
from agentos.reporters.sink import Sink
from agentos.reporters.summary import Summary, summary_lines
from agentos.reporters.wording import COORDINATOR, Alarm, LabelOf, dry_run_lines, labels_with, lines
from agentos.text.output_prefixer import prefix_block, prefix_of
from agentos.text.terminal import clean_block
from agentos.text.thread_output import unprefixed_stdout

__all__ = ["ConsoleReporter", "PrintingListener", "Sink", "dry_run_lines", "lines", "wants_colour"]

REDRAW_SECONDS = 0.1
CLOCK_SECONDS = 1.0
MOST_PROGRESS_LINES = 100
_UNLIMITED = 1_000_000
_DIM, _RED, _RESET = "\x1b[2m", "\x1b[31m", "\x1b[0m"


def wants_colour(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Colour only on a terminal that has it, and never against NO_COLOR (any value that is not empty)."""
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


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
    """

    def __init__(
        self,
        sink: Sink,
        *,
        is_terminal: bool,
        columns: Callable[[], int],
        colour: bool,
        clock: Callable[[], float] = time.monotonic,
        run_dir: Path | None = None,
        shows_node: bool = False,
    ) -> None:
        self._sink = sink
        self._colour = colour
        self._clock = clock
        self._run_dir = run_dir
        self._shows_node = shows_node
        self._nodes: dict[str, str] = {}
        self._label_of: LabelOf = str
        self._progress = Progress()
        self._summary = Summary()
        self._is_stopping = False
        self._shown_ended = 0
        self._shown_percent = 0
        self._bottom = _BottomLine(columns) if is_terminal else None

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
            self._write(self._bottom.redrawn(self._status, now, above=data))
        elif data:
            self._write(self._bottom.repeated(above=data))

    def _with_node(self, label_of: LabelOf) -> LabelOf:
        return lambda item_id: label_of(item_id) + self._nodes.get(item_id, "")

    def tick(self, now: float) -> None:
        """Redraw the progress if its time has come."""
        due = self.next_tick()
        if self._bottom and due is not None and now >= due:
            self._write(self._bottom.redrawn(self._status, now))

    def next_tick(self) -> float | None:
        """When `tick` has something to do; None when only an event can change what is shown."""
        bottom = self._bottom
        if bottom is None:
            return None
        if bottom.is_stale:
            return bottom.drawn_at + REDRAW_SECONDS
        return bottom.drawn_at + CLOCK_SECONDS if self._progress.has_estimate else None

    def close(self) -> None:
        """Leave the terminal without a progress line, also when the run never came to its end."""
        if self._bottom:
            self._write(self._bottom.erased())
            self._bottom = None

    def _write(self, data: bytes) -> None:
        if data:
            self._sink.write(data)

    def _status(self, columns: int, now: float) -> str:
        return self._progress.status_line(now, columns, self._label_of)

    def _bytes_of(self, event: Event) -> bytes:
        match event:
            case OutputProduced(item_id=item_id, block=block):
                return self._output(item_id, block)
            case StopRequested(at_once=False) if self._is_stopping:
                return b""
            case StopRequested():
                self._is_stopping = True
            case RunEnded():
                last = [f"{COORDINATOR} {self._progress.line()}"] if self._bottom and self._progress.total else []
                return self._encoded([*last, *summary_lines(self._summary.result(), self._run_dir)])
            case ItemEnded() if self._bottom is None:
                return self._encoded([*lines(event, self._label_of), *self._progress_lines()])
        return self._encoded(lines(event, self._label_of))

    def _output(self, item_id: str, block: bytes) -> bytes:
        if not self._colour and b"\x1b" in block:
            block = clean_block(block, keep_colour=False)
        return prefix_block(self._painted_label(prefix_of(self._label_of(item_id))).encode(), block)

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
        shown = [self._painted(text) for text in texts] if self._colour else texts
        return "".join(f"{text}\n" for text in shown).encode(errors="replace")

    def _painted(self, line: str) -> str:
        label, bracket, text = line.partition("] ")
        shown = f"{_RED}{text}{_RESET}" if isinstance(line, Alarm) else text
        return f"{self._painted_label(label + bracket.rstrip())} {shown}"

    def _painted_label(self, label: str) -> str:
        return f"{_DIM}{label}{_RESET}" if self._colour else label


class _BottomLine:
    """The last line of the terminal, which is taken away and drawn again as lines go by above it."""

    def __init__(self, columns: Callable[[], int]) -> None:
        self._columns = columns
        self._text = ""
        self.is_stale = False
        self.drawn_at = -math.inf

    def redrawn(self, status: Callable[[int, float], str], now: float, above: bytes = b"") -> bytes:
        """The bytes that put `above` over a fresh status. Nothing when nothing would change."""
        # The last column stays free: terminals differ in what a full line does to the cursor.
        text = status(self._width() - 1, now)
        self.is_stale, self.drawn_at = False, now
        if text == self._text and not above:
            return b""
        erased = self.erased()
        self._text = text
        return erased + above + text.encode(errors="replace")

    def repeated(self, above: bytes) -> bytes:
        """The bytes that put `above` over the status as it was drawn last."""
        return self.erased() + above + self._text.encode(errors="replace")

    def erased(self) -> bytes:
        """The bytes that take the status away and leave the cursor where it began."""
        if not self._text:
            return b""
        # In a window made narrower since, the line has become several.
        rows_up = (len(self._text) - 1) // self._width()
        return (f"\x1b[{rows_up}A" if rows_up else "").encode() + b"\r\x1b[J"

    def _width(self) -> int:
        return max(2, self._columns() or 80)
