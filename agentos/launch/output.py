"""What a run shows: the console and, with --json, the event stream, each to a reader who may be slow or leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.engine.emitter import Reporter
from agentos.engine.loop import Loop, Timer
from agentos.engine.stopping import GRACE
from agentos.engine.stream_sink import StreamSink
from agentos.environment import environment
from agentos.events import Stamped
from agentos.processes import host
from agentos.reporters.console import ConsoleReporter
from agentos.reporters.output_mode import OutputMode
from agentos.reporters.painting import Painter
from agentos.reporters.progress import Progress
from agentos.reporters.terminal_bottom import LEAST_ROWS, Bottom, LiveBlock
from agentos.reporters.title import WindowTitle
from agentos.text.encodings import Transcoded, is_utf8
from agentos.text.terminal_kind import terminal_kind
from agentos.text.window import columns_of, typed_bytes, window_of

if TYPE_CHECKING:
    from agentos.dashboard.live import LiveRun


class RunOutput:
    """With `is_json` standard output carries events, and people's text goes to standard error."""

    def __init__(
        self,
        loop: Loop,
        run_dir: Path,
        *,
        is_json: bool,
        is_quiet: bool,
        shows_node: bool = False,
        on_closed: Callable[[], None],
        on_drained: Callable[[], None],
        mode: OutputMode | None = None,
        item_count: int = 0,
        stages: Sequence[str] = (),
    ) -> None:
        """`on_closed`: the reader has left. `on_drained`: one that was slow has caught up.

        Without a `mode`, what suits the stream and the number of items. `stages` are the workflow's nodes, if known.
        """
        self._loop = loop
        self._shows_node = shows_node
        self._on_closed = on_closed
        self._on_drained = on_drained
        self._sinks: list[StreamSink] = []
        self.warnings: list[str] = []
        """What to tell of the output itself."""
        self.json_sink = self._sink(1) if is_json else None
        self._console = (
            None if is_quiet else self._make_console(2 if is_json else 1, run_dir, mode, item_count, stages)
        )

    def reporters(self, pause: Callable[[], None]) -> list[Reporter]:
        """`pause` is called when the reader does not keep up."""
        if self._console is None:
            return []
        self._console.when_behind(lambda: any(s.is_full for s in self._sinks), pause)
        return [self._console]

    @contextmanager
    def put_aside(self) -> Iterator[None]:
        """While the run is suspended the terminal is somebody else's."""
        if self._console is not None:
            self._console.step_aside()
            for sink in self._sinks:
                sink.flush(GRACE.flush)
        yield
        self.come_back()

    def come_back(self) -> None:
        """Others may have written to the terminal."""
        if self._console is not None:
            self._console.come_back()

    def close(self, *, is_stopping: bool) -> None:
        for sink in self._sinks:
            sink.flush(GRACE.flush if is_stopping else None)
            sink.close()
            if sink.fault:
                sys.stderr.write(f"agentos: error: cannot write the output: {sink.fault}. The run was stopped.\n")

    def _sink(self, descriptor: int) -> StreamSink:
        made = StreamSink(descriptor, self._loop, on_drained=self._on_drained, on_closed=self._on_closed)
        self._sinks.append(made)
        return made

    def _make_console(
        self, descriptor: int, run_dir: Path, mode: OutputMode | None, item_count: int, stages: Sequence[str]
    ) -> _LiveConsole:
        sys.stdout.flush()
        sink = self._sink(descriptor)
        encoding = (sys.stdout if descriptor == 1 else sys.stderr).encoding
        kind = terminal_kind(environment(), is_tty=os.isatty(descriptor))
        can_live = kind.is_terminal and is_utf8(encoding) and window_of(descriptor)[1] >= LEAST_ROWS
        if mode is OutputMode.LIVE and not can_live:
            self.warnings.append(_NO_LIVE)
        mode = _mode(mode, can_live=can_live, is_plain=not kind.colour or item_count < 2)
        painter = Painter(colour=kind.colour, many_colours=kind.many_colours, links=kind.links, run_dir=run_dir)
        progress = Progress()
        live = _live_run(painter, progress, stages) if mode is OutputMode.LIVE else None
        encoded = sink if is_utf8(encoding) else Transcoded(sink, encoding)
        console = ConsoleReporter(
            encoded,
            is_terminal=kind.is_terminal,
            columns=lambda: columns_of(descriptor),
            colour=kind.colour,
            clock=self._loop.now,
            run_dir=run_dir,
            mode=mode,
            painter=painter,
            progress=progress,
            bottom=_block(live, descriptor, sink) if live else None,
            shows_node=self._shows_node,
        )
        title = WindowTitle(encoded, progress, self._loop.now) if kind.title else None
        return _LiveConsole(console, self._loop, live, title)


_NO_LIVE = (
    f"--output-mode live needs a terminal with UTF-8 and at least {LEAST_ROWS} rows, not TERM=dumb, and no CI; "
    "lines are streamed"
)


def _mode(wanted: OutputMode | None, *, can_live: bool, is_plain: bool) -> OutputMode:
    """What is wanted, where it can be. `is_plain`: nobody wants colour, or there is one item to listen to."""
    if wanted is OutputMode.QUIET or not can_live:
        return wanted if wanted is OutputMode.QUIET else OutputMode.STREAM
    return wanted or (OutputMode.STREAM if is_plain else OutputMode.LIVE)


def _live_run(painter: Painter, progress: Progress, stages: Sequence[str]) -> LiveRun:
    from agentos.dashboard.live import LiveRun  # noqa: PLC0415  Only a terminal shows it.

    return LiveRun(painter, progress, stages)


def _block(live: LiveRun, descriptor: int, sink: StreamSink) -> Bottom:
    """Drawn only when it is seen at once, and not over a shell's prompt."""
    typed_group = environment().get(host.TERMINAL_GROUP_VARIABLE, "")
    return LiveBlock(
        live.lines,
        lambda: window_of(descriptor),
        may_draw=lambda: not sink.is_behind and host.is_in_foreground(descriptor, typed_group),
        typed_bytes=lambda: typed_bytes(descriptor),
    )


class _LiveConsole:
    """The console, redrawn when it asks for it, and told on when its reader falls behind."""

    name = "the console"

    def __init__(self, console: ConsoleReporter, loop: Loop, live: LiveRun | None, title: WindowTitle | None) -> None:
        self._console = console
        self._loop = loop
        self._live = live
        self._title = title
        self._is_full: Callable[[], bool] = lambda: False
        self._pause: Callable[[], None] = lambda: None
        self._timer: Timer | None = None

    def when_behind(self, is_full: Callable[[], bool], pause: Callable[[], None]) -> None:
        self._is_full = is_full
        self._pause = pause

    def handle(self, stamped: Stamped) -> None:
        if self._live is not None:
            self._live.note(stamped)
        self._console.handle(stamped)
        if self._title is not None:
            self._title.handle(stamped)
        self._plan_tick()
        if self._is_full():
            self._pause()

    def step_aside(self) -> None:
        self._console.step_aside()
        if self._title is not None:
            self._title.restore()

    def come_back(self) -> None:
        self._console.come_back()
        self._plan_tick()

    def close(self) -> None:
        self._console.close()
        if self._title is not None:
            self._title.restore()

    def _plan_tick(self) -> None:
        due = self._console.next_tick()
        if due is not None and self._timer is None:
            self._timer = self._loop.after(max(0.0, due - self._loop.now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._console.tick(self._loop.now())
        self._plan_tick()
