"""The fork server: loads the graph once, makes one fresh process per item, and leaves nothing behind.

It runs no item itself, so it always answers. Workers are its children and orphans of workers become its children: it
sees every process of the run end, and when the coordinator's socket closes, for whatever reason, it ends them all.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentos.engine.backends.forkserver.lazy_packages import put_off
from agentos.engine.backends.forkserver.leftovers import (
    Loading,
    OpenThings,
    is_own,
    left_open,
    new_descriptors,
    reseed_random_generators,
    watched_loading,
)
from agentos.engine.backends.forkserver.loading_guard import LoadingGuard
from agentos.engine.backends.forkserver.program import WORKER_FLAG, server_command, worker_command
from agentos.engine.limits import refuse_too_little
from agentos.engine.removed_variables import hint
from agentos.engine.stopping import EXITING_SECONDS, GRACE
from agentos.engine.worker_extension import NoExtension, WorkerExtension, extension_named
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.processes import host
from agentos.processes.loading import leave_out_command_lines

if TYPE_CHECKING:
    from agentos.engine.graph_loading import LoadedGraph

_MOST_MESSAGE_CHARACTERS = 2_000


def main(arguments: list[str]) -> None:
    """`forkserver CONTROL_FD SETTINGS` serves; `forkserver --worker CONTROL_FD CLAIMS_FD SETTINGS` is a worker."""
    put_off()
    leave_out_command_lines()
    if arguments[0] == WORKER_FLAG:
        _spawned_worker(int(arguments[1]), int(arguments[2]), json.loads(arguments[3]))
        return
    # Loading makes many objects and hardly any garbage: collecting as it goes is a tenth of its time.
    gc.disable()
    # Until the loop below watches the socket, the kernel does: an import may hang or never return.
    host.die_with_parent()
    control = socket.socket(fileno=int(arguments[0]))
    settings = json.loads(arguments[1])
    if os.getppid() != settings["coordinator_pid"]:
        return
    host.adopt_orphans()
    ForkServer(control, settings, LoadingGuard(settings["mark"], control)).run()
    _leave()


def _leave() -> None:
    """Not by returning: a thread that the graph's module has started must not keep the process."""
    with suppress(BaseException):
        atexit._run_exitfuncs()
    host.flush_output()
    os._exit(0)


def _loader(settings: dict[str, Any]) -> LoadedGraph:
    from agentos.engine.graph_loading import load_graph  # noqa: PLC0415  LangGraph takes most of a second.

    # Wherever this process works: files that the module opens are named from where the user is.
    with chdir(settings["search_dir"]):
        # As when its author runs it without options: some modules read them while they load.
        sys.argv = [settings["graph"].rpartition(":")[0] or settings["graph"]]
        return load_graph(settings["graph"], Path(settings["search_dir"]))


def _spawned_worker(control_fd: int, claims_fd: int, settings: dict[str, Any]) -> None:
    from agentos.engine.worker import run_worker  # noqa: PLC0415  Only this process needs it.

    host.die_with_parent()
    host.adopt_orphans()
    host.volunteer_for_oom_killer()
    _keep_from_children(control_fd, claims_fd)
    run_worker(socket.socket(fileno=control_fd), lambda: _loader(settings), extension_named(settings["extension"]))


class ForkServer:
    """Requests come over one SEQPACKET socket, descriptors with them; facts go back the same way."""

    def __init__(self, control: socket.socket, settings: dict[str, Any], guard: LoadingGuard) -> None:
        self._guard = guard
        self._control = control
        self._settings = settings
        self._workers: dict[int, str] = {}
        self._not_orphans: set[int] = set()
        """Children of ours that are no worker's: started while the graph loaded, or beyond our reach."""
        self._graph: LoadedGraph | None = None
        self._loading = Loading()
        self._extension: type[WorkerExtension] = NoExtension
        self._child_signal_read, self._child_signal_write = os.pipe()

    def run(self) -> None:
        if not self._preload():
            return
        self._guard.stand_down()
        self._not_orphans.update(host.children_of(os.getpid()))
        os.set_blocking(self._child_signal_read, False)
        os.set_blocking(self._child_signal_write, False)
        signal.set_wakeup_fd(self._child_signal_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Whoever started us, or the graph's module, may have blocked it, and what workers stop by.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # From here on the socket tells us of the coordinator's death, and we have workers to end before our own. If
        # somebody has suspended us, that wakes us up.
        host.die_with_parent(signal.SIGCONT)
        if os.getppid() != self._settings["coordinator_pid"]:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._child_signal_read, selectors.EVENT_READ)
            self._serve(selector)
        self._end_everything()

    def _serve(self, selector: selectors.BaseSelector) -> None:
        while True:
            for key, _ in selector.select():
                if key.fileobj is self._control:
                    if not self._take_request():
                        return
                else:
                    os.read(self._child_signal_read, 4096)
                    if not self._reap():
                        return

    def _preload(self) -> bool:
        """Load what workers share. False: the graph cannot be loaded, and the coordinator knows why."""
        from agentos.engine import checkpoints, graph, messages, shared_store, worker  # noqa: F401, PLC0415  For the workers to find.

        graph.warm_up()
        messages.prepare()
        # What is missing is told by the first who needs it.
        with suppress(Exception):
            checkpoints.preload(self._settings["checkpoint_address"])
        # Hardly any of this is garbage, and looking for it takes as long as a tenth of loading it.
        gc.freeze()
        if (known := self._settings.get("loaded_before")) is not None:
            self._extension = extension_named(self._settings["extension"])
            return self._ready(known["input_keys"], known["notice"])
        before, given = OpenThings.now(), dict(environment())
        try:
            with watched_loading() as self._loading:
                self._graph = _loader(self._settings)
            loaded = frozenset(sys.modules)
            keys = graph.input_keys(self._graph.graph) if self._graph.graph else None
            refuse_too_little(self._settings["memory_limit"], host.memory_megabytes())
        except BaseException as error:
            self._send("failed", is_usage=isinstance(error, UsageError), **_words(error))
            return False
        self._extension = extension_named(self._settings["extension"])
        notice = self._extension.notice(self._settings["extension_options"], loaded)
        # What nobody holds any more is closed by the collector, which has been off.
        gc.collect()
        if not self._settings["fork"]:
            self._graph = None
        elif left := [*left_open(before, OpenThings.now()), *self._loading.not_to_share()]:
            told = f"loading the graph leaves open {', '.join(left)}: each worker loads it by itself"
            self._start_over_without_graph(before, given, keys, "; ".join(filter(None, [told, notice])))
        if self._settings["fork"]:
            # What is missing or broken is the business of whoever needs it.
            with suppress(Exception):
                self._extension.preload(self._settings["extension_options"], loaded)
        return self._ready(keys, notice)

    def _start_over_without_graph(
        self, before: OpenThings, given: dict[str, str], keys: list[str] | None, notice: str
    ) -> NoReturn:
        """Become a server that has not loaded the graph: workers forked from it share nothing that is open here.

        The process stays the same for the coordinator and for the kernel; its threads, descriptors and memory go.
        """
        self._guard.stand_down()
        for pid in host.children_of(os.getpid()):
            host.kill_quietly(pid)
            _wait_for(pid)
        # Not here: what takes too long to leave must not keep the run from beginning.
        leaving = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        leaving.start()
        leaving.join(GRACE.worker)
        host.flush_output()
        for descriptor in new_descriptors(before, OpenThings.now()):
            with suppress(OSError):
                os.close(descriptor)
        os.set_inheritable(self._control.fileno(), True)
        settings = {**self._settings, "loaded_before": {"input_keys": keys, "notice": notice}}
        arguments = server_command(self._control.fileno(), settings)
        os.execve(arguments[0], arguments, given)

    def _ready(self, keys: list[str] | None, notice: str = "") -> bool:
        # Before any fork: what is still kept here would be said again by every worker.
        host.flush_output()
        # Nothing loaded so far is ever collected, so that a child's collector does not copy the parent's pages.
        gc.freeze()
        gc.enable()
        self._send("ready", input_keys=keys, notice=notice)
        return True

    def _send(self, kind: str, **data: Any) -> bool:
        try:
            self._control.send(json.dumps({"kind": kind, **data}).encode())
        except OSError:
            return False
        return True

    def _take_request(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
        except OSError:
            return False
        if not data:
            return False
        request = json.loads(data)
        if request["kind"] == "start":
            self._start(request["item_id"], descriptors)
        elif request["kind"] == "kill" and request["pid"] in self._workers:
            # Its descendants come to us when it is gone, and are ended then.
            host.kill_quietly(request["pid"])
        return True

    def _start(self, item_id: str, descriptors: list[int]) -> None:
        make: Callable[[list[int]], int] = self._fork if self._settings["fork"] else self._spawn
        try:
            pid = make(descriptors)
        except OSError as error:
            self._send("not_started", item_id=item_id, message=str(error))
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._workers[pid] = item_id
        self._send("started", item_id=item_id, pid=pid)

    def _fork(self, descriptors: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker(descriptors)
            except BaseException:
                # A bug, or a folder that is gone: the item's log is where people look.
                traceback.print_exc()
            finally:
                os._exit(70)
        return pid

    def _become_worker(self, descriptors: list[int]) -> None:
        control_fd, output_fd, claims_fd = descriptors
        server_pid = os.getppid()
        host.die_with_parent()
        if os.getppid() != server_pid:
            os._exit(70)
        os.setsid()
        host.adopt_orphans()
        host.volunteer_for_oom_killer()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._child_signal_read)
        os.close(self._child_signal_write)
        self._control.close()
        _use_as_output(output_fd)
        _keep_from_children(control_fd, claims_fd)
        from agentos.engine.worker import run_worker  # noqa: PLC0415  Loaded before the fork.

        reseed_random_generators(self._loading.drawn)
        graph, settings = self._graph, self._settings
        run_worker(socket.socket(fileno=control_fd), lambda: graph or _loader(settings), self._extension)

    def _spawn(self, descriptors: list[int]) -> int:
        control_fd, output_fd, claims_fd = descriptors
        process = subprocess.Popen(
            worker_command(control_fd, claims_fd, self._settings),
            stdin=subprocess.DEVNULL,
            stdout=output_fd,
            stderr=output_fd,
            pass_fds=(control_fd, claims_fd),
            start_new_session=True,
        )
        process.returncode = 0  # We reap by pid; keep Popen from warning about a child it has not waited for.
        return process.pid

    def _reap(self) -> bool:
        """Collect ended workers, end what they left, and report. False: the coordinator is gone."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._not_orphans.discard(pid)
            if pid in self._workers:
                ended.append((pid, os.waitstatus_to_exitcode(status)))
        if not ended:
            return True
        leaked = self._end_orphans()
        is_heard = True
        for pid, code in ended:
            item_id = self._workers.pop(pid)
            is_heard &= self._send("exited", item_id=item_id, pid=pid, code=code, leaked=leaked)
            leaked = []
        return is_heard

    def _end_orphans(self) -> list[int]:
        """Workers keep their own orphans: a child of ours that is no worker was left by one that is gone."""
        ended: list[int] = []
        began = time.monotonic()
        while orphans := self._orphans():
            waited = time.monotonic() - began
            if waited > GRACE.kill:
                # Stuck in the kernel, or a setuid program that is not ours to end: nobody waits for it again.
                self._not_orphans.update(orphans)
                break
            for pid in orphans:
                is_leaving = _ends_by_itself(pid)
                if _has_ended(pid) or (is_leaving and waited < EXITING_SECONDS):
                    continue
                if not is_leaving and pid not in ended:
                    ended.append(pid)
                host.kill_quietly(pid)
            time.sleep(0.001)
        return ended

    def _orphans(self) -> list[int]:
        known = self._workers.keys() | self._not_orphans
        return [pid for pid in host.children_of(os.getpid()) if pid not in known]

    def _end_everything(self) -> None:
        for pid in self._workers:
            host.kill_quietly(pid)
        for pid in self._workers:
            _wait_for(pid)
        self._workers.clear()
        self._not_orphans.clear()
        self._end_orphans()


def _words(error: BaseException) -> dict[str, str]:
    """What a packet can carry, even of an error that cannot be shown."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be shown)"
    message = text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    message = ". ".join([message, *notes]) + hint(text, environment())
    return {"message": message[:_MOST_MESSAGE_CHARACTERS], "place": _place_of(error)[:_MOST_MESSAGE_CHARACTERS]}


def _place_of(error: BaseException) -> str:
    """The last line of the user's own code on the way to the error: not of a library, the import system or ours."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


def _has_ended(pid: int) -> bool:
    """Collects it if it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _ends_by_itself(pid: int) -> bool:
    """On its way out, which takes the command from it first, or what `multiprocessing` keeps to clean up after us."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
    return not command or b"resource_tracker" in command


def _wait_for(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _use_as_output(output_fd: int) -> None:
    """One pipe for stdout and stderr keeps their order; native code writes there too."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(null)
    os.close(output_fd)


def _keep_from_children(*descriptors: int) -> None:
    """A node's child must neither speak for its worker nor hold its claim; received descriptors are inheritable."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)


if __name__ == "__main__":
    main(sys.argv[1:])
