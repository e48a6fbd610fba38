"""The coordinator's end of one worker: what it says and writes, handed on in the order it came."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentos.engine.backends.output_lines import OutputLines
from agentos.engine.backends.protocol import WorkerEvents, WorkerExit
from agentos.engine.connection import Connection
from agentos.engine.loop import READ, Loop, Timer
from agentos.engine.messages import ORDERED, UpMessage, decode_up
from agentos.processes import host
from agentos.wire import LineBuffer

_PROMPT_SECONDS = 0.2
"""How long a line without its newline waits before it is shown: it may be a prompt."""
_PROMPT_TURNS = 10
"""A worker that wants the processor gets this many times as long: the rest of its line may be coming."""
_NOT_A_MESSAGE = "its worker sent something that is not a message: does a node write to a socket it did not open?"
_READ_BYTES = 1 << 18
_MOST_AT_ONCE = 1 << 22
"""At most this much output of one worker in one turn of the loop, so that others get theirs."""


@dataclass(slots=True)
class OutputReader:
    """Whoever reads the output of all workers."""

    is_behind: bool = False
    """It is slow: workers wait in their writes, and messages for the output that came before them."""
    may_hold: bool = True
    """Messages do wait for it; not in a run that is stopping."""


class WorkerLink:
    """`on_gone` is told once, when all that the worker said and wrote has been handed on."""

    def __init__(
        self,
        item_id: str,
        loop: Loop,
        events: WorkerEvents,
        control: socket.socket,
        output_fd: int,
        output: OutputLines,
        reader: OutputReader,
        *,
        kill: Callable[[str], None],
        on_gone: Callable[[WorkerExit], None],
    ) -> None:
        self.pid: int | None = None
        self.kill_wanted = False
        self._item_id = item_id
        self._loop = loop
        self._events = events
        self._output_fd = output_fd
        self._output = output
        self._reader = reader
        self._kill = kill
        self._on_gone = on_gone
        self._lines = LineBuffer()
        self._prompt_timer: Timer | None = None
        self._prompt_turns = 0
        self._held: list[UpMessage] = []
        """Messages that wait for a slow reader to take what was written before them."""
        self._unread_before_held = 0
        """How much of that is still in the pipe, in bytes."""
        self._held_exit: WorkerExit | None = None
        self._fault = ""
        """Why it was ended, if that is its own doing."""
        self._control = Connection(loop, control, self._take, lambda: None)
        os.set_blocking(output_fd, False)
        if not reader.is_behind:
            self._watch_output()

    def send(self, data: bytes) -> None:
        self._control.send(data)

    def pause_output(self) -> None:
        self._loop.unwatch(self._output_fd)

    def resume_output(self) -> None:
        self._watch_output()
        self._wait_for_rest_of_line()
        self.deliver()

    def deliver(self) -> None:
        """Hand over what the worker's messages waited with, if it is their turn."""
        if self._held:
            self._read_output(at_least=0 if self._reader.may_hold else self._unread_before_held)
            if self._unread_before_held and self._reader.may_hold:
                return
            self._hand_over_held()
        if self._held_exit is not None:
            self.end(self._held_exit)

    def end(self, end: WorkerExit) -> None:
        """Everything it said and wrote comes first; nobody is left who could add to it."""
        self._held_exit = None
        self._control.read_all()
        if self._reader.is_behind and self._reader.may_hold:
            self._held_exit = end
            return
        self._read_output(to_the_end=True)
        self._show(self._output.finish())
        self._hand_over_held()
        self.close()
        self._on_gone(replace(end, fault=self._fault))

    def close(self) -> None:
        if self._prompt_timer is not None:
            self._prompt_timer.cancel()
        self._control.close()
        self._close_output()

    def _take(self, data: bytes) -> None:
        if self._fault:
            return
        try:
            messages = [decode_up(line) for line in self._lines.feed(data)]
        except ValueError:
            # Only our own code writes there: a node that found the descriptor is not to be trusted further.
            self._fault = _NOT_A_MESSAGE
            self._kill(self._item_id)
            return
        for message in messages:
            self._hear(message)

    def _hear(self, message: UpMessage) -> None:
        """What a worker wrote before such a message is shown before it, so both wait for a slow reader."""
        if not isinstance(message, ORDERED):
            self._events.worker_said(self._item_id, message)
            return
        self._held.append(message)
        self._unread_before_held = self._bytes_waiting()
        self.deliver()

    def _hand_over_held(self) -> None:
        messages, self._held = self._held, []
        if messages:
            self._show(self._output.flush_partial())
        for message in messages:
            self._events.worker_said(self._item_id, message)

    def _watch_output(self) -> None:
        if self._output_fd >= 0:
            self._loop.watch(self._output_fd, READ, lambda _events: self._read_output())

    def _read_output(self, *, at_least: int = 0, to_the_end: bool = False) -> None:
        """`at_least` bytes that are known to be there, or all of it, even if the reader is slow."""
        if self._reader.is_behind and not (at_least or to_the_end):
            return
        taken = 0
        while self._output_fd >= 0 and (taken < _MOST_AT_ONCE or to_the_end):
            try:
                data = os.read(self._output_fd, _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._close_output()
                break
            taken += len(data)
            self._show(self._output.feed(data))
            if self._reader.is_behind and taken >= at_least and not to_the_end:
                break
        if taken:
            self._unread_before_held = max(0, self._unread_before_held - taken)
            self._wait_for_rest_of_line()

    def _show(self, block: bytes) -> None:
        if block:
            self._events.worker_wrote(self._item_id, block)

    def _wait_for_rest_of_line(self) -> None:
        if self._prompt_timer is not None:
            self._prompt_timer.cancel()
            self._prompt_timer = None
        self._prompt_turns = 0
        if self._output.has_partial:
            self._prompt_timer = self._loop.after(_PROMPT_SECONDS, self._show_prompt)

    def _show_prompt(self) -> None:
        """A line whose end does not come is shown as it is, unless its end is only kept from coming."""
        if self._reader.is_behind or self._bytes_waiting():
            return  # Reading goes on, and starts the wait anew.
        self._prompt_turns += 1
        if self.pid and self._prompt_turns < _PROMPT_TURNS and host.is_runnable(self.pid):
            self._prompt_timer = self._loop.after(_PROMPT_SECONDS, self._show_prompt)
            return
        self._show(self._output.flush_partial())

    def _close_output(self) -> None:
        if self._output_fd >= 0:
            self._loop.unwatch(self._output_fd)
            os.close(self._output_fd)
            self._output_fd = -1

    def _bytes_waiting(self) -> int:
        """How much is in the output's pipe, unread."""
        if self._output_fd < 0:
            return 0
        return int.from_bytes(fcntl.ioctl(self._output_fd, termios.FIONREAD, bytes(4)), sys.byteorder)
