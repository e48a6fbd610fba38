"""A node's process: holds the same fork server and workers as on one machine, for one run, and speaks for them.

It knows nothing of Ray. When nothing is heard from the coordinator for a few seconds, whatever the reason, it ends
every worker and itself.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agentos.engine.backends.forkserver.backend import ForkServerBackend
from agentos.engine.backends.protocol import Backend, LoadFailure, WorkerExit, WorkerSetup
from agentos.engine.backends.ray.chunks import Assembly
from agentos.engine.backends.ray.messages import (
    BEAT_SECONDS,
    NODE_SILENCE_SECONDS,
    START_SECONDS,
    Alive,
    AllLost,
    Begin,
    Branches,
    Carried,
    CarriedTaken,
    End,
    FromNode,
    Gone,
    Hello,
    HungUp,
    KillWorker,
    Lacks,
    Load,
    Loaded,
    LoadingWrote,
    NotLoaded,
    Order,
    Piece,
    PieceTaken,
    ProjectReady,
    Said,
    StartWorker,
    TakeProject,
    Tell,
    ToNode,
    Wrote,
    as_text,
    from_node,
    to_node,
)
from agentos.engine.backends.ray.relay import Entrance
from agentos.engine.backends.ray.same_machine import identity_of, meet
from agentos.engine.backends.ray.visiting_project import VisitingProject
from agentos.engine.connection import Connection
from agentos.engine.loading import LOADING
from agentos.engine.loop import Loop
from agentos.engine.messages import DownMessage, ItemOpened, NodeReady, StartItem, UpMessage
from agentos.engine.stopping import GRACE
from agentos.keys.leases import LeaseGranted
from agentos.keys.redaction import Redactor
from agentos.processes import host
from agentos.wire import LineBuffer

_MOST_UNSENT_BYTES = 8 << 20
"""With more than this on the way, workers wait in their writes."""
_FEW_UNSENT_BYTES = 1 << 20


def boot_seconds() -> float:
    """Time that also passes while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class NodeProcess:
    """Carries out what the coordinator says, and tells it what the backend tells."""

    def __init__(self, loop: Loop, connection: socket.socket, clock: Callable[[], float] = boot_seconds) -> None:
        self._loop = loop
        self._clock = clock
        self._connection = Connection(loop, connection, self._hear, self._leave)
        self._lines = LineBuffer()
        self._heard = clock()
        self._longest_silence = START_SECONDS
        self._begin: Begin | None = None
        self._claims_fd = -1
        self._backend: Backend | None = None
        self._visit: VisitingProject | None = None
        """The project, where it had to travel."""
        self._way_back: Entrance | None = None
        """To what serves workers on the coordinator's machine, where that is another one."""
        self._assembly = Assembly()
        self._branches: deque[Branches] = deque()
        self._items: set[str] = set()
        self._workers: dict[int, str] = {}
        """Processes of workers, and their items; of what loads the graph as long as it does."""
        self._is_choked = False
        self._wants_pause = False
        self._is_over = False
        loop.after(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        if self._is_over:
            return
        if self._has_been_alone():
            self._leave()
            return
        backend = self._backend
        suspended = [i for i in self._items if backend is not None and backend.is_suspended(i)]
        self._say(Alive(suspended=suspended))
        self._loop.after(BEAT_SECONDS, self._beat)

    def _has_been_alone(self) -> bool:
        return self._clock() - self._heard > self._longest_silence

    def _hear(self, data: bytes) -> None:
        if self._has_been_alone():
            # We were suspended, or cut off: our items have been given to others.
            self._leave()
            return
        self._heard = self._clock()
        self._longest_silence = NODE_SILENCE_SECONDS
        for line in self._lines.feed(data):
            if line and not self._is_over:
                self._take(to_node.decode(line))

    def _take(self, message: ToNode) -> None:
        match message:
            case Begin():
                self._meet(message)
            case TakeProject() if self._begin is not None:
                self._visit = VisitingProject(self._begin, message, self._say)
                self._way_back = Entrance(self._loop, self._begin.service_port, self._say, self._workers)
                self._say(Lacks(keys=self._visit.lacking))
                self._make_project_when_whole()
            case Piece() if self._visit is not None:
                self._take_piece(self._visit, message)
            case Branches():
                self._branches.append(message)
            case Load():
                self._load(message)
            case StartWorker(message=start):
                self._start(start)
            case Tell(item_id=item_id, message=down) if self._backend is not None:
                self._backend.send(item_id, self._as_here(down))
            case Carried() | CarriedTaken() | HungUp() if self._way_back is not None:
                self._way_back.take(message)
            case KillWorker(item_id=item_id) if self._backend is not None:
                self._backend.kill(item_id)
            case Order(name=name):
                self._obey(name)
            case End(within_seconds=seconds):
                self._leave(seconds)
            case _:
                pass  # Nothing is loaded yet.

    def _meet(self, begin: Begin) -> None:
        self._begin = begin
        claims_fd = meet(begin.meeting_path, begin.meeting_word)
        is_here = claims_fd is not None and identity_of(begin.project_dir) == begin.project_identity
        # Elsewhere claims are rows of the database; workers want something to hold all the same.
        self._claims_fd = os.open(os.devnull, os.O_RDONLY) if claims_fd is None else claims_fd
        self._say(Hello(is_here=is_here, pid=os.getpid()))

    def _take_piece(self, visit: VisitingProject, piece: Piece) -> None:
        content = self._assembly.add(piece)
        if content is not None and self._branches and self._branches[0].key == piece.key:
            visit.take_branches(self._branches.popleft().branches, content)
            return
        if content is not None:
            visit.keep(piece.key, content)
            self._make_project_when_whole()
        self._say(PieceTaken(key=piece.key))

    def _make_project_when_whole(self) -> None:
        """In a thread: whoever waits for a sign of life gets it meanwhile."""
        visit = self._visit
        if visit is not None and not visit.lacking:
            threading.Thread(target=self._make_project, args=[visit], daemon=True).start()

    def _make_project(self, visit: VisitingProject) -> None:
        problem = visit.make()
        self._loop.post(lambda: self._say(ProjectReady(problem=problem)))

    def _load(self, load: Load) -> None:
        begin, variables = self._begin, load.environment
        assert begin is not None
        if self._visit is not None:
            begin, variables = self._visit.begin_there(), self._visit.variables(load.environment)
        if self._way_back is not None:
            variables = self._way_back.variables(variables)
        if self._backend is None:
            self._backend = ForkServerBackend(
                self._loop,
                self,
                _setup(begin, variables),
                fork=begin.fork and host.CAN_FORK_SAFELY,
                claims_fd=self._claims_fd,
                redactor=Redactor(),
            )
        self._backend.load()

    def _start(self, message: StartItem) -> None:
        assert self._backend is not None
        item_id = message.item_id
        self._items.add(item_id)
        try:
            self._backend.start(self._start_as_here(message))
        except OSError as error:
            self.worker_wrote(item_id, f"no process: {error.strerror or error}\n".encode())
            self.worker_gone(item_id, WorkerExit(code=71))

    def _start_as_here(self, message: StartItem) -> StartItem:
        if self._visit is not None:
            message = self._visit.start_there(message)
        if self._way_back is not None:
            message = replace(message, environment=self._way_back.variables(message.environment))
        return message

    def _as_here(self, message: DownMessage) -> DownMessage:
        if self._visit is not None:
            message = self._visit.down(message)
        if self._way_back is not None and isinstance(message, LeaseGranted):
            lease = replace(message.lease, through=self._way_back.here(message.lease.through))
            message = replace(message, lease=lease)
        return message

    def _obey(self, name: str) -> None:
        if name in ("pause_output", "resume_output"):
            self._wants_pause = name == "pause_output"
            self._follow_reader()
        elif self._backend is not None and name in ("suspend_all", "continue_all", "hold_nothing_back"):
            getattr(self._backend, name)()

    def _follow_reader(self) -> None:
        if self._backend is None:
            return
        if self._wants_pause or self._is_choked:
            self._backend.pause_output()
        else:
            self._backend.resume_output()

    def _leave(self, within_seconds: float = GRACE.kill + GRACE.close + GRACE.sweep) -> None:
        """End everything; nothing of the run stays on this node."""
        if self._is_over:
            return
        self._is_over = True
        if self._backend is not None:
            self._backend.close(within_seconds)
        if self._way_back is not None:
            self._way_back.close()
        if self._visit is not None:
            self._visit.remove()
        if self._claims_fd >= 0:
            # Its other side goes by the connection: what our items held must be free by then.
            os.close(self._claims_fd)
            self._claims_fd = -1
        self._connection.close()
        self._loop.stop()

    def _say(self, message: FromNode) -> None:
        self._connection.send(from_node.encode(message))
        if not self._is_choked and self._connection.unsent_bytes > _MOST_UNSENT_BYTES:
            self._is_choked = True
            self._follow_reader()
            self._loop.after(BEAT_SECONDS / 10, self._breathe)

    def _breathe(self) -> None:
        if self._connection.unsent_bytes > _FEW_UNSENT_BYTES:
            self._loop.after(BEAT_SECONDS / 10, self._breathe)
        elif not self._is_over:
            self._is_choked = False
            self._follow_reader()

    # What the backend tells.

    def loaded(self, input_keys: list[str] | None, notice: str = "", node: str = "") -> None:
        self._forget(LOADING)
        self._say(Loaded(input_keys=input_keys or [], has_input_keys=input_keys is not None, notice=notice))

    def load_failed(self, failure: LoadFailure) -> None:
        self._forget(LOADING)
        self._say(
            NotLoaded(
                message=failure.message, place=failure.place, is_usage=failure.is_usage, has_died=failure.has_died
            )
        )

    def lost(self, reason: str) -> None:
        self._say(AllLost(reason=reason))

    def loading(self, pid: int, node: str = "") -> None:
        self._workers[pid] = LOADING

    def loading_wrote(self, block: bytes) -> None:
        self._say(LoadingWrote(block=as_text(block)))

    def noticed(self, text: str) -> None:
        """A fork server notices nothing."""

    def places_changed(self, count: int) -> None:
        """Nor has it a number of places."""

    def worker_reached(self, item_id: str, port: int) -> None:
        """Its workers are here."""

    def failing(self, reason: str) -> None:
        """Nor does it fail slowly."""

    def worker_said(self, item_id: str, message: UpMessage) -> None:
        if self._visit is not None:
            if isinstance(message, ItemOpened):
                self._workers[message.pid] = item_id
                message = replace(message, pid=0)
            if isinstance(message, NodeReady) and message.finished:
                self._visit.send_branches()
            try:
                message = self._visit.up(item_id, message)
            except OSError as error:
                self.worker_wrote(item_id, f"a document cannot travel: {error}\n".encode())
                self._kill_quietly(item_id)
                return
        self._say(Said(item_id=item_id, message=message))

    def _forget(self, item_id: str) -> None:
        for pid in [pid for pid, whose in self._workers.items() if whose == item_id]:
            del self._workers[pid]

    def _kill_quietly(self, item_id: str) -> None:
        if self._backend is not None:
            self._backend.kill(item_id)

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        self._say(Wrote(item_id=item_id, block=as_text(block)))

    def worker_gone(self, item_id: str, end: WorkerExit) -> None:
        self._items.discard(item_id)
        self._forget(item_id)
        self._say(
            Gone(
                item_id=item_id,
                is_lost=end.code is None,
                code=end.code or 0,
                leaked=list(end.leaked),
                fault=end.fault,
            )
        )


def _setup(begin: Begin, variables: dict[str, str]) -> WorkerSetup:
    return WorkerSetup(
        run_id=begin.run_id,
        graph=begin.graph,
        search_dir=Path(begin.search_dir),
        checkpoint_address=begin.checkpoint_address,
        environment=variables,
        python=Path(begin.python) if begin.python else None,
        extension=begin.extension,
        extension_options=begin.extension_options,
    )


def main(arguments: list[str]) -> None:
    """`node DESCRIPTOR`: serve what comes over this socket until it ends."""
    loop = Loop()
    NodeProcess(loop, socket.socket(fileno=int(arguments[0])))
    loop.run()
    # Not by returning: nothing that is left may keep the process.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
