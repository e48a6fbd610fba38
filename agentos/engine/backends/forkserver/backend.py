"""Workers as processes of this machine: the coordinator's side, with their sockets, their output, their end."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agentos.engine.backends.forkserver.loading_guard import MARK_VARIABLE
from agentos.engine.backends.forkserver.program import server_command
from agentos.engine.backends.output_lines import OutputLines
from agentos.engine.backends.protocol import BackendEvents, LoadFailure, WorkerExit, WorkerSetup
from agentos.engine.interpreter import lent_folders
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.loop import READ, WRITE, Loop, Timer
from agentos.engine.messages import (
    ORDERED,
    DownMessage,
    StartItem,
    UpMessage,
    decode_up,
    encode,
)
from agentos.engine.stopping import GRACE
from agentos.keys.redaction import Redactor, redact_record
from agentos.processes import host
from agentos.wire import LineBuffer

RUN_ID_VARIABLE = "AGENTOS_RUN_ID"
"""In the environment of every process of a run."""
_servers: set[int] = set()
"""Fork servers of this program's runs: it may have several at once, each on a thread of its own."""
_PROMPT_SECONDS = 0.2
"""How long a line without its newline waits before it is shown: it may be a prompt."""
_READ_BYTES = 1 << 18
_PIPE_BYTES = 1 << 20
_PROMPT_TURNS = 10
"""A worker that wants the processor gets this many times as long: the rest of its line may be coming."""
_NOT_A_MESSAGE = "its worker sent something that is not a message: does a node write to a socket it did not open?"
_MOST_AT_ONCE = 1 << 22
"""At most this much output of one worker in one turn of the loop, so that others get theirs."""


@dataclass(slots=True)
class _Worker:
    item_id: str
    control: socket.socket
    output_fd: int
    output: OutputLines
    pid: int | None = None
    kill_wanted: bool = False
    lines: LineBuffer = field(default_factory=LineBuffer)
    unsent: bytearray = field(default_factory=bytearray)
    prompt_timer: Timer | None = None
    prompt_turns: int = 0
    held: list[UpMessage] = field(default_factory=list)
    """Messages that wait for a slow reader to take what was written before them."""
    unread_before_held: int = 0
    """How much of that is still in the pipe, in bytes."""
    held_exit: WorkerExit | None = None
    fault: str = ""
    """Why it was ended, if that is its own doing."""


class ForkServerBackend:
    """One fork server, and one process per item."""

    def __init__(
        self,
        loop: Loop,
        events: BackendEvents,
        setup: WorkerSetup,
        *,
        fork: bool,
        claims_fd: int,
        redactor: Redactor,
    ) -> None:
        """Without `fork` each worker is a fresh interpreter. A worker keeps `claims_fd` open as long as it lives."""
        self._loop = loop
        self._events = events
        self._setup = setup
        self._claims_fd = claims_fd
        self._redactor = redactor
        self._mark = secrets.token_hex(8)
        self._environment = {**setup.environment, RUN_ID_VARIABLE: setup.run_id, MARK_VARIABLE: self._mark}
        self._settings = {
            "mark": self._mark,
            "graph": setup.graph,
            "search_dir": str(setup.search_dir),
            "checkpoint_address": setup.checkpoint_address,
            "fork": fork,
            "coordinator_pid": os.getpid(),
            "memory_limit": memory_limit(setup.environment.get(MEMORY_LIMIT_VARIABLE, "")),
            "extension": setup.extension,
            "extension_options": dict(setup.extension_options),
            "guest_python": str(setup.python) if setup.python else None,
            "lent": lent_folders() if setup.python else {},
        }
        self._workers: dict[str, _Worker] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._not_ours: set[int] | None = None
        """Children that this program had before there was a fork server."""
        self._adopted_before = False
        self._server: socket.socket | None = None
        self._server_output = -1
        self._loading_output = OutputLines(redactor, keep_colour=False)
        self._is_paused = False
        self._may_hold = True
        self._is_loaded = False
        self._has_ever_loaded = False
        self._has_failed = False

    def load(self) -> None:
        self._is_loaded = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output_read, output_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                server_command(theirs.fileno(), self._settings),
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=(theirs.fileno(),),
                env=self._environment,
                # Its own session: Ctrl+C, a closing terminal or a kill of our group must not reach it.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(output_write)
        _servers.add(self._process.pid)
        self._events.loading(self._process.pid)
        if self._not_ours is None:
            self._not_ours = set(host.children_of(os.getpid())) - _servers
            # What workers leave behind goes to the fork server; when that is killed, to us.
            self._adopted_before = host.adopt_orphans()
        ours.setblocking(False)
        self._server = ours
        self._server_output = output_read
        os.set_blocking(output_read, False)
        self._loop.watch(ours.fileno(), READ, self._hear_server)
        self._loop.watch(output_read, READ, self._read_server_output)

    def start(self, message: StartItem) -> None:
        assert self._server is not None
        first_words = encode(message)
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(output_write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        ours.setblocking(False)
        os.set_blocking(output_read, False)
        worker = _Worker(message.item_id, ours, output_read, OutputLines(self._redactor, keep_colour=True))
        self._workers[message.item_id] = worker
        request = json.dumps({"kind": "start", "item_id": message.item_id}).encode()
        try:
            socket.send_fds(self._server, [request], [theirs.fileno(), output_write, self._claims_fd])
        except OSError:
            pass  # The server is dying: its loss is heard on its socket, and this item with it.
        finally:
            theirs.close()
            os.close(output_write)
        self._loop.watch(ours.fileno(), READ, lambda events: self._serve_control(worker, events))
        if not self._is_paused:
            self._watch_output(worker)
        worker.unsent += first_words
        self._push_control(worker)

    def send(self, item_id: str, message: DownMessage) -> None:
        worker = self._workers.get(item_id)
        if worker is not None:
            worker.unsent += encode(message)
            self._push_control(worker)

    def kill(self, item_id: str) -> None:
        worker = self._workers.get(item_id)
        if worker is None:
            return
        worker.kill_wanted = True
        if worker.pid is not None:
            self._ask_server({"kind": "kill", "pid": worker.pid})

    def node_of(self, item_id: str) -> str:
        return ""

    def is_elsewhere(self, item_id: str) -> bool:
        return False

    def retire(self, node: str, reason: str) -> bool:
        return False

    def is_suspended(self, item_id: str) -> bool:
        worker = self._workers.get(item_id)
        return worker is not None and worker.pid is not None and host.is_suspended(worker.pid)

    def suspend_all(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def continue_all(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, signal_number: int) -> None:
        for worker in self._workers.values():
            if worker.pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal_number)

    def pause_output(self) -> None:
        self._is_paused = True
        for worker in self._workers.values():
            self._loop.unwatch(worker.output_fd)

    def resume_output(self) -> None:
        self._is_paused = False
        for worker in list(self._workers.values()):
            self._watch_output(worker)
            self._wait_for_rest_of_line(worker)
            self._deliver(worker)
            # What was delivered may have been too much for the reader again.
            if self._is_paused:
                return

    def hold_nothing_back(self) -> None:
        self._may_hold = False
        for worker in list(self._workers.values()):
            self._deliver(worker)

    def close(self, within_seconds: float) -> None:
        deadline = time.monotonic() + within_seconds
        if self._server is not None:
            self._loop.unwatch(self._server.fileno())
            self._server.close()
            self._server = None
        if self._process is not None:
            try:
                # One that still loads the graph does not listen yet, and may never.
                self._process.wait(timeout=within_seconds - GRACE.sweep if self._is_loaded else 0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                self._sweep(max(deadline, time.monotonic() + GRACE.sweep))
            _servers.discard(self._process.pid)
            self._process = None
        if self._not_ours is not None:
            host.adopt_orphans(self._adopted_before)
        if self._server_output >= 0:
            self._loop.unwatch(self._server_output)
            os.close(self._server_output)
            self._server_output = -1
        for worker in list(self._workers.values()):
            self._forget(worker)

    # What the fork server says.

    def _ask_server(self, request: dict[str, Any]) -> None:
        if self._server is not None:
            with suppress(OSError):
                self._server.send(json.dumps(request).encode())

    def _hear_server(self, _events: int) -> None:
        while self._server is not None:
            try:
                data = self._server.recv(1 << 20)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._server_gone()
                return
            self._take_fact(json.loads(data))

    def _take_fact(self, fact: dict[str, Any]) -> None:
        match fact.pop("kind"):
            case "ready":
                self._is_loaded = self._has_ever_loaded = True
                self._show_loading_output()
                self._events.loaded(fact["input_keys"], fact["notice"])
            case "failed":
                self._has_failed = True
                self._show_loading_output()
                self._events.load_failed(LoadFailure(**redact_record(fact, self._redactor)))
            case "started":
                self._started(fact["item_id"], fact["pid"])
            case "not_started":
                worker = self._workers.get(fact["item_id"])
                if worker is not None:
                    self._events.worker_wrote(worker.item_id, f"no process: {fact['message']}\n".encode())
                    self._end(worker, WorkerExit(code=71))
            case "exited":
                worker = self._workers.get(fact["item_id"])
                if worker is not None:
                    self._end(worker, WorkerExit(code=fact["code"], leaked=tuple(fact["leaked"])))

    def _started(self, item_id: str, pid: int) -> None:
        worker = self._workers.get(item_id)
        if worker is None:
            return
        worker.pid = pid
        if worker.kill_wanted:
            self.kill(item_id)

    def _server_gone(self) -> None:
        """Killed from outside. The kernel has ended its workers; their children are ours to end."""
        assert self._server is not None
        self._loop.unwatch(self._server.fileno())
        self._server.close()
        self._server = None
        if self._process is not None:
            self._process.wait()
            _servers.discard(self._process.pid)
            self._process = None
        self._read_server_output(0)
        self._sweep(time.monotonic() + GRACE.kill)
        self._tell_of_loss()
        for worker in list(self._workers.values()):
            self._end(worker, WorkerExit(code=None))

    def _tell_of_loss(self) -> None:
        if self._has_ever_loaded:
            self._events.lost("the fork server was killed")
        elif not self._has_failed:
            graph = self._setup.graph
            message = f"--graph {graph!r}: the process that loads it died; does it crash on import?"
            self._events.load_failed(LoadFailure(message=message, has_died=True))

    def _sweep(self, deadline: float) -> None:
        """The last resort: every process that carries our mark, and those that came to us."""
        while time.monotonic() < deadline:
            left = {*host.processes_with(MARK_VARIABLE, self._mark), *self._orphans()}
            if not left:
                return
            for pid in left:
                host.kill_quietly(pid)
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.005)

    def _orphans(self) -> list[int]:
        """Workers have sessions of their own: a child of ours in another one is not from this program's code."""
        known = _servers | (self._not_ours or set())
        ours = [pid for pid in host.children_of(os.getpid()) if pid not in known]
        return [pid for pid in ours if host.session_of(pid) not in (None, os.getsid(0))]

    def _read_server_output(self, _events: int) -> None:
        while self._server_output >= 0:
            try:
                data = os.read(self._server_output, _READ_BYTES)
            except BlockingIOError:
                return
            self._show_loading(self._loading_output.feed(data) if data else self._loading_output.finish())
            if not data:
                self._loop.unwatch(self._server_output)
                os.close(self._server_output)
                self._server_output = -1

    def _show_loading_output(self) -> None:
        """All of it: the graph's module has printed what it had to."""
        self._read_server_output(0)
        self._show_loading(self._loading_output.flush_partial())

    def _show_loading(self, block: bytes) -> None:
        if block:
            self._events.loading_wrote(block)

    # What workers say and write.

    def _serve_control(self, worker: _Worker, events: int) -> None:
        if events & WRITE:
            self._push_control(worker)
        if events & READ:
            self._read_control(worker)

    def _push_control(self, worker: _Worker) -> None:
        try:
            while worker.unsent:
                del worker.unsent[: worker.control.send(worker.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            worker.unsent.clear()  # It is gone; its end is on the way.
        if worker.control.fileno() >= 0:
            wanted = READ | WRITE if worker.unsent else READ
            self._loop.watch(worker.control.fileno(), wanted, lambda events: self._serve_control(worker, events))

    def _read_control(self, worker: _Worker) -> None:
        while worker.control.fileno() >= 0:
            try:
                data = worker.control.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._loop.unwatch(worker.control.fileno())
                return
            try:
                lines = worker.lines.feed(data)
                messages = [decode_up(line) for line in lines]
            except ValueError:
                # Only our own code writes there: a node that found the descriptor is not to be trusted further.
                self._loop.unwatch(worker.control.fileno())
                worker.fault = _NOT_A_MESSAGE
                self.kill(worker.item_id)
                return
            for message in messages:
                self._hear(worker, message)

    def _hear(self, worker: _Worker, message: UpMessage) -> None:
        """What a worker wrote before such a message is shown before it, so both wait for a slow reader."""
        if not isinstance(message, ORDERED):
            self._events.worker_said(worker.item_id, message)
            return
        worker.held.append(message)
        worker.unread_before_held = _bytes_waiting(worker.output_fd)
        self._deliver(worker)

    def _deliver(self, worker: _Worker) -> None:
        """Hand over what the worker's messages waited with, if it is their turn."""
        if worker.held:
            self._read_output(worker, at_least=0 if self._may_hold else worker.unread_before_held)
            if worker.unread_before_held and self._may_hold:
                return
            self._hand_over_held(worker)
        if worker.held_exit is not None:
            self._end(worker, worker.held_exit)

    def _hand_over_held(self, worker: _Worker) -> None:
        messages, worker.held = worker.held, []
        if messages:
            self._show(worker, worker.output.flush_partial())
        for message in messages:
            self._events.worker_said(worker.item_id, message)

    def _watch_output(self, worker: _Worker) -> None:
        if worker.output_fd >= 0:
            self._loop.watch(worker.output_fd, READ, lambda _events: self._read_output(worker))

    def _read_output(self, worker: _Worker, *, at_least: int = 0, to_the_end: bool = False) -> None:
        """`at_least` bytes that are known to be there, or all of it, even if the reader is slow."""
        if self._is_paused and not (at_least or to_the_end):
            return
        taken = 0
        while worker.output_fd >= 0 and (taken < _MOST_AT_ONCE or to_the_end):
            try:
                data = os.read(worker.output_fd, _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._close_output(worker)
                break
            taken += len(data)
            self._show(worker, worker.output.feed(data))
            if self._is_paused and taken >= at_least and not to_the_end:
                break
        if taken:
            worker.unread_before_held = max(0, worker.unread_before_held - taken)
            self._wait_for_rest_of_line(worker)

    def _show(self, worker: _Worker, block: bytes) -> None:
        if block:
            self._events.worker_wrote(worker.item_id, block)

    def _wait_for_rest_of_line(self, worker: _Worker) -> None:
        if worker.prompt_timer is not None:
            worker.prompt_timer.cancel()
            worker.prompt_timer = None
        worker.prompt_turns = 0
        if worker.output.has_partial:
            worker.prompt_timer = self._loop.after(_PROMPT_SECONDS, lambda: self._show_prompt(worker))

    def _show_prompt(self, worker: _Worker) -> None:
        """A line whose end does not come is shown as it is, unless its end is only kept from coming."""
        if self._is_paused or _bytes_waiting(worker.output_fd):
            return  # Reading goes on, and starts the wait anew.
        worker.prompt_turns += 1
        if worker.pid and worker.prompt_turns < _PROMPT_TURNS and host.is_runnable(worker.pid):
            worker.prompt_timer = self._loop.after(_PROMPT_SECONDS, lambda: self._show_prompt(worker))
            return
        self._show(worker, worker.output.flush_partial())

    def _close_output(self, worker: _Worker) -> None:
        if worker.output_fd >= 0:
            self._loop.unwatch(worker.output_fd)
            os.close(worker.output_fd)
            worker.output_fd = -1

    def _end(self, worker: _Worker, end: WorkerExit) -> None:
        """Everything it said and wrote comes first; nobody is left who could add to it."""
        worker.held_exit = None
        self._read_control(worker)
        if self._is_paused and self._may_hold:
            worker.held_exit = end
            return
        self._read_output(worker, to_the_end=True)
        self._show(worker, worker.output.finish())
        self._hand_over_held(worker)
        self._forget(worker)
        self._events.worker_gone(worker.item_id, replace(end, fault=worker.fault))

    def _forget(self, worker: _Worker) -> None:
        self._workers.pop(worker.item_id, None)
        if worker.prompt_timer is not None:
            worker.prompt_timer.cancel()
        if worker.control.fileno() >= 0:
            self._loop.unwatch(worker.control.fileno())
            worker.control.close()
        self._close_output(worker)


def _bytes_waiting(descriptor: int) -> int:
    """How much is in a pipe, unread."""
    if descriptor < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
