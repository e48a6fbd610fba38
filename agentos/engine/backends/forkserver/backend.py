"""Workers as processes of this machine: the coordinator's side, with the fork server that makes and ends them."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Any

from agentos.engine.backends.forkserver.loading_guard import MARK_VARIABLE
from agentos.engine.backends.forkserver.program import server_command
from agentos.engine.backends.forkserver.worker_link import OutputReader, WorkerLink
from agentos.engine.backends.output_lines import OutputLines
from agentos.engine.backends.protocol import BackendEvents, LoadFailure, WorkerExit, WorkerSetup
from agentos.engine.interpreter import lent_folders
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.loop import READ, Loop
from agentos.engine.messages import DownMessage, StartItem, encode
from agentos.engine.stopping import GRACE
from agentos.keys.redaction import Redactor, redact_record
from agentos.processes import host

RUN_ID_VARIABLE = "AGENTOS_RUN_ID"
"""In the environment of every process of a run."""
_servers: set[int] = set()
"""Fork servers of this program's runs: it may have several at once, each on a thread of its own."""
_READ_BYTES = 1 << 18
_PIPE_BYTES = 1 << 20


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
        self._workers: dict[str, WorkerLink] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._not_ours: set[int] | None = None
        """Children that this program had before there was a fork server."""
        self._adopted_before = False
        self._server: socket.socket | None = None
        self._server_output = -1
        self._loading_output = OutputLines(redactor, keep_colour=False)
        self._reader = OutputReader()
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
        item_id, first_words = message.item_id, encode(message)
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(output_write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._workers[item_id] = WorkerLink(
            item_id,
            self._loop,
            self._events,
            ours,
            output_read,
            OutputLines(self._redactor, keep_colour=True),
            self._reader,
            kill=self.kill,
            on_gone=lambda end: self._worker_gone(item_id, end),
        )
        request = json.dumps({"kind": "start", "item_id": item_id}).encode()
        try:
            socket.send_fds(self._server, [request], [theirs.fileno(), output_write, self._claims_fd])
        except OSError:
            pass  # The server is dying: its loss is heard on its socket, and this item with it.
        finally:
            theirs.close()
            os.close(output_write)
        self._workers[item_id].send(first_words)

    def send(self, item_id: str, message: DownMessage) -> None:
        worker = self._workers.get(item_id)
        if worker is not None:
            worker.send(encode(message))

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
        self._reader.is_behind = True
        for worker in self._workers.values():
            worker.pause_output()

    def resume_output(self) -> None:
        self._reader.is_behind = False
        for worker in list(self._workers.values()):
            worker.resume_output()
            # What was delivered may have been too much for the reader again.
            if self._reader.is_behind:
                return

    def hold_nothing_back(self) -> None:
        self._reader.may_hold = False
        for worker in list(self._workers.values()):
            worker.deliver()

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
        while self._workers:
            self._workers.popitem()[1].close()

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
                    self._events.worker_wrote(fact["item_id"], f"no process: {fact['message']}\n".encode())
                    worker.end(WorkerExit(code=71))
            case "exited":
                worker = self._workers.get(fact["item_id"])
                if worker is not None:
                    worker.end(WorkerExit(code=fact["code"], leaked=tuple(fact["leaked"])))

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
            worker.end(WorkerExit(code=None))

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

    def _worker_gone(self, item_id: str, end: WorkerExit) -> None:
        self._workers.pop(item_id, None)
        self._events.worker_gone(item_id, end)
