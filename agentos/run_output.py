"""What a run shows: the console and, with --json, the event stream, each to a reader who may be slow or leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from agentos.engine.emitter import Reporter
from agentos.engine.loop import Loop, Timer
from agentos.engine.stopping import GRACE
from agentos.engine.stream_sink import StreamSink
from agentos.environment import environment
from agentos.events import Stamped
from agentos.reporters.console import ConsoleReporter, wants_colour
from agentos.text.encodings import Transcoded, is_utf8
from agentos.text.window import columns_of


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
    ) -> None:
        """`on_closed`: the reader has left. `on_drained`: one that was slow has caught up."""
        self._loop = loop
        self._shows_node = shows_node
        self._on_closed = on_closed
        self._on_drained = on_drained
        self._sinks: list[StreamSink] = []
        self.json_sink = self._sink(1) if is_json else None
        self._console = None if is_quiet else self._make_console(2 if is_json else 1, run_dir)

    def reporters(self, pause: Callable[[], None]) -> list[Reporter]:
        """`pause` is called when the reader does not keep up."""
        if self._console is None:
            return []
        return [_LiveConsole(self._console, self._loop, lambda: any(s.is_full for s in self._sinks), pause)]

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

    def _make_console(self, descriptor: int, run_dir: Path) -> ConsoleReporter:
        sys.stdout.flush()
        is_terminal = os.isatty(descriptor) and environment().get("TERM") != "dumb"
        sink = self._sink(descriptor)
        encoding = (sys.stdout if descriptor == 1 else sys.stderr).encoding
        return ConsoleReporter(
            sink if is_utf8(encoding) else Transcoded(sink, encoding),
            is_terminal=is_terminal,
            columns=lambda: columns_of(descriptor),
            colour=wants_colour(environment(), is_terminal=is_terminal),
            clock=self._loop.now,
            run_dir=run_dir,
            shows_node=self._shows_node,
        )


class _LiveConsole:
    """The console, redrawn when it asks for it, and told on when its reader falls behind."""

    name = "the console"

    def __init__(
        self, console: ConsoleReporter, loop: Loop, is_full: Callable[[], bool], pause: Callable[[], None]
    ) -> None:
        self._console = console
        self._loop = loop
        self._is_full = is_full
        self._pause = pause
        self._timer: Timer | None = None

    def handle(self, stamped: Stamped) -> None:
        self._console.handle(stamped)
        self._plan_tick()
        if self._is_full():
            self._pause()

    def close(self) -> None:
        self._console.close()

    def _plan_tick(self) -> None:
        due = self._console.next_tick()
        if due is not None and self._timer is None:
            self._timer = self._loop.after(max(0.0, due - self._loop.now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._console.tick(self._loop.now())
        self._plan_tick()
