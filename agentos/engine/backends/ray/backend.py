"""Workers on the nodes of a Ray cluster: the coordinator's side. Which node an item is on, and when one is lost."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentos.database import is_database
from agentos.engine.backends.output_lines import OutputLines
from agentos.engine.backends.protocol import BackendEvents, LoadFailure, WorkerExit, WorkerSetup
from agentos.engine.backends.ray.item_output import ItemOutput
from agentos.engine.backends.ray.messages import (
    BRIDGE_CHANNEL,
    Alive,
    AllLost,
    Begin,
    Branches,
    Carried,
    CarriedTaken,
    Document,
    End,
    Frames,
    FromNode,
    Gone,
    HeadLost,
    Hello,
    HungUp,
    Join,
    KillWorker,
    Lacks,
    Load,
    Loaded,
    LoadingWrote,
    NodeJoined,
    NodeLeft,
    Noticed,
    NotJoined,
    NotLoaded,
    OfBridge,
    Order,
    Piece,
    PieceTaken,
    ProjectReady,
    Reached,
    Said,
    StartWorker,
    Tell,
    ToNode,
    Wrote,
    as_bytes,
    frame,
    from_node,
    of_bridge,
    to_bridge,
    to_node,
)
from agentos.engine.backends.ray.relay import Exit
from agentos.engine.backends.ray.same_machine import MeetingPlace, identity_of
from agentos.engine.backends.ray.secrecy import is_encrypted, variables_for_others, without_secrets
from agentos.engine.backends.ray.sent_project import Parcel, SentProject
from agentos.engine.connection import Connection
from agentos.engine.loading import LOADING, loading_on
from agentos.engine.loop import Loop
from agentos.engine.messages import ORDERED, DownMessage, StartItem
from agentos.environment import environment
from agentos.keys.redaction import Redactor
from agentos.text.words import counted
from agentos.wire import LineBuffer

_HIDDEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What lets into the cluster is nothing for workers to know."""
_MOST_LOSSES = 3
"""A node whose fork server dies more often than this makes no workers any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Which cluster, and what a run wants of it."""

    address: str
    parallel: int
    max_per_node: int = 0
    resources: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    makes_environment: bool = False


@dataclass(slots=True)
class _Node:
    name: str
    places: int
    loading_output: OutputLines
    lines: LineBuffer = field(default_factory=LineBuffer)
    items: set[str] = field(default_factory=set)
    parcel: Parcel | None = None
    """What travels to and from a node that has another disk; None on this machine."""
    way_back: Exit | None = None
    """For its workers to what serves them on this machine."""
    is_ready: bool = False
    is_refused: bool = False
    is_retired: bool = False
    """It was used, and is used no more."""
    losses: int = 0
    pid: int = 0
    """Of its process, on this machine."""
    suspended: frozenset[str] = frozenset()

    @property
    def free(self) -> int:
        return self.places - len(self.items) if self.is_ready else 0


class RayBackend:
    """One bridge, and one supervisor per node."""

    def __init__(
        self,
        loop: Loop,
        events: BackendEvents,
        setup: WorkerSetup,
        plan: ClusterPlan,
        *,
        project_dir: Path,
        fork: bool,
        claims_fd: int,
        redactor: Redactor,
    ) -> None:
        self._loop = loop
        self._events = events
        self._setup = setup
        self._plan = plan
        self._project_dir = project_dir
        self._fork = fork
        self._redactor = redactor
        self._meeting = MeetingPlace(loop, claims_fd)
        self._process: subprocess.Popen[bytes] | None = None
        self._bridge: Connection | None = None
        self._bridge_words = tempfile.TemporaryFile()  # noqa: SIM115  Open as long as the backend is.
        """What it has to say when it dies; nobody else may read it."""
        self._frames = Frames()
        self._nodes: dict[int, _Node] = {}
        self._where: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        self._output: dict[str, ItemOutput] = {}
        self._project = SentProject(loop, project_dir)
        self._is_encrypted = is_encrypted(environment())
        self._waiting: deque[StartItem] = deque()
        """Items that have no place for now: a node was lost between their turn and their start."""
        self._is_loaded = False
        self._has_ever_loaded = False
        self._has_failed = False
        self._is_paused = False
        self._is_over = False
        self._places = 0

    def load(self) -> None:
        self._end_bridge()
        self._frames = Frames()
        self._is_loaded = self._has_failed = False
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "agentos.engine.backends.ray.bridge", str(theirs.fileno())]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._bridge_words,
                pass_fds=(theirs.fileno(),),
                env=self._bridge_environment(),
                # Ctrl+C and Ctrl+Z are the coordinator's to answer.
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._bridge = Connection(self._loop, ours, self._hear_bridge, self._bridge_gone)
        plan = self._plan
        join = Join(
            address=plan.address,
            run_id=self._setup.run_id,
            parallel=plan.parallel,
            max_per_node=plan.max_per_node,
            resources=dict(plan.resources),
            makes_environment=plan.makes_environment,
        )
        self._bridge.send(frame(BRIDGE_CHANNEL, to_bridge.encode(join)))

    def start(self, message: StartItem) -> None:
        channel = max(self._nodes, key=lambda each: self._nodes[each].free, default=None)
        if channel is None or self._nodes[channel].free <= 0:
            self._waiting.append(message)
            return
        node = self._nodes[channel]
        node.items.add(message.item_id)
        self._where[message.item_id] = channel
        self._output[message.item_id] = ItemOutput(
            self._loop, self._redactor, partial(self._events.worker_wrote, message.item_id)
        )
        self._addresses[message.item_id] = message.checkpoint_address
        if node.parcel is not None:
            node.parcel.send_branches()
            message = message if self._is_encrypted else without_secrets(message)
        self._say(channel, StartWorker(message=message))

    def send(self, item_id: str, message: DownMessage) -> None:
        channel = self._where.get(item_id)
        if channel is None:
            return
        self._say(channel, Tell(item_id=item_id, message=message))

    def kill(self, item_id: str) -> None:
        channel = self._where.get(item_id)
        if channel is not None:
            self._say(channel, KillWorker(item_id=item_id))
            return
        waiting = [start for start in self._waiting if start.item_id == item_id]
        for start in waiting:
            self._waiting.remove(start)
            # Heard of in the loop, as every end of a worker.
            self._loop.post(lambda: self._events.worker_gone(item_id, WorkerExit(code=-9)))

    def is_suspended(self, item_id: str) -> bool:
        channel = self._where.get(item_id)
        return channel is not None and item_id in self._nodes[channel].suspended

    def node_of(self, item_id: str) -> str:
        channel = self._where.get(item_id)
        return "" if channel is None else self._nodes[channel].name

    def is_elsewhere(self, item_id: str) -> bool:
        channel = self._where.get(item_id)
        return channel is not None and self._nodes[channel].parcel is not None

    def retire(self, node: str, reason: str) -> bool:
        retired = next((each for each in self._nodes.values() if each.name == node and not each.is_retired), None)
        if retired is None:
            return True
        if self._is_last(retired):
            return False
        retired.is_retired = True
        self._use_no_more(retired, f"{reason}; its items resume elsewhere")
        return True

    def _is_last(self, node: _Node) -> bool:
        return not any(each.places for each in self._nodes.values() if each is not node)

    def _use_no_more(self, node: _Node, reason: str) -> None:
        """Without any other node the run stops: nobody would start its items."""
        is_last = self._is_last(node)
        node.places = 0
        said = f"{node.name} is not used any more: {reason}"
        if is_last:
            self._events.failing(f"{said}, and there is no other node")
        else:
            self._events.noticed(said)
        self._count_places()

    def suspend_all(self) -> None:
        self._order("suspend_all")

    def continue_all(self) -> None:
        self._order("continue_all")

    def pause_output(self) -> None:
        self._is_paused = True
        self._order("pause_output")

    def resume_output(self) -> None:
        self._is_paused = False
        self._order("resume_output")

    def hold_nothing_back(self) -> None:
        self._order("hold_nothing_back")
        for start in list(self._waiting):
            self.kill(start.item_id)

    def close(self, within_seconds: float) -> None:
        deadline = time.monotonic() + within_seconds
        self._is_over = True
        if self._nodes and self._bridge is not None:
            for channel in self._nodes:
                self._say(channel, End(within_seconds=max(0.5, within_seconds - 1.0)))
            # Each node leaves when it has ended everything.
            self._bridge.serve_until(lambda: not self._nodes, deadline)
        self._end_bridge(deadline)
        self._nodes.clear()
        self._where.clear()
        self._waiting.clear()
        self._meeting.close()
        self._bridge_words.close()

    def _bridge_environment(self) -> dict[str, str]:
        """Without keys, and with what Ray has to know."""
        own = {name: value for name, value in environment().items() if name.startswith("RAY_")}
        return {**self._setup.environment, "RAY_AUTH_MODE": "token", **own}

    def _end_bridge(self, deadline: float = 0.0) -> None:
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None
        if self._process is not None:
            try:
                self._process.wait(max(0.3, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    # What the bridge says.

    def _order(self, name: str) -> None:
        for channel in self._nodes:
            self._say(channel, Order(name=name))

    def _say(self, channel: int, message: ToNode) -> None:
        if self._bridge is not None:
            self._bridge.send(frame(channel, to_node.encode(message)))

    def _hear_bridge(self, data: bytes) -> None:
        for channel, payload in self._frames.feed(data):
            if channel == BRIDGE_CHANNEL:
                self._take_of_bridge(of_bridge.decode(payload))
            elif (node := self._nodes.get(channel)) is not None:
                for line in node.lines.feed(payload):
                    self._take(channel, node, from_node.decode(line))

    def _take_of_bridge(self, message: OfBridge) -> None:
        match message:
            case NodeJoined(channel=channel, name=name, places=places):
                loading_output = OutputLines(self._redactor, keep_colour=False)
                self._nodes[channel] = _Node(self._unused_name(name), places, loading_output)
                self._say(channel, self._begin())
            case NodeLeft(channel=channel, reason=reason) if channel in self._nodes:
                self._node_left(channel, reason)
            case Noticed(text=text) if not self._is_over:
                self._events.noticed(text)
            case HeadLost(reason=reason) if not self._is_over:
                self._events.failing(reason)
            case NotJoined(reason=reason) if not self._is_over:
                self._fail(self._trouble(f"cannot use the cluster at {self._plan.address}: {reason}"))
            case _:
                pass

    def _unused_name(self, name: str) -> str:
        used = {node.name for node in self._nodes.values()}
        names = [name, *(f"{name}-{number}" for number in range(2, len(used) + 3))]
        return next(each for each in names if each not in used)

    def _begin(self) -> Begin:
        setup = self._setup
        return Begin(
            run_id=setup.run_id,
            graph=setup.graph,
            search_dir=str(setup.search_dir),
            project_dir=str(self._project_dir),
            project_identity=identity_of(str(self._project_dir)),
            python=str(setup.python or ""),
            extension=setup.extension,
            extension_options=dict(setup.extension_options),
            fork=self._fork,
            checkpoint_address=setup.checkpoint_address,
            service_port=setup.service_port,
            meeting_path=self._meeting.path,
            meeting_word=self._meeting.word,
        )

    def _bridge_gone(self) -> None:
        """Ray is lost, or its driver was killed. Supervisors see that, and end what they have."""
        self._bridge = None
        if self._is_over:
            return
        nodes = list(self._nodes)
        if self._is_loaded:
            self._events.lost(f"the connection with the cluster at {self._plan.address} was lost")
        else:
            dead = f"the process that speaks with the cluster at {self._plan.address} died"
            self._fail(self._trouble(f"{dead}{self._last_words()}"))
        for channel in nodes:
            self._drop(channel)

    def _last_words(self) -> str:
        self._bridge_words.seek(0)
        lines = self._bridge_words.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return self._redactor.redact_text(f": {said[-1]}") if said else ""

    def _trouble(self, text: str) -> LoadFailure:
        return LoadFailure(message=text[:1].upper() + text[1:], is_of_graph=False)

    def _fail(self, failure: LoadFailure) -> None:
        """Said once."""
        if not self._has_failed:
            self._has_failed = True
            self._events.load_failed(failure)

    def _node_left(self, channel: int, reason: str) -> None:
        node = self._nodes[channel]
        if self._is_over:
            self._nodes.pop(channel)
            return
        count = len(node.items)
        goes_on = f"; {counted(count, 'item')} of it resume elsewhere" if count else ""
        self._events.noticed(f"{node.name} is lost ({reason}){goes_on}")
        self._drop(channel)

    def _drop(self, channel: int) -> None:
        node = self._nodes.pop(channel)
        if node.way_back is not None:
            node.way_back.close()
        self._count_places()
        for item_id in node.items:
            self._where.pop(item_id, None)
        for item_id in sorted(node.items):
            self._output.pop(item_id).end()
            self._events.worker_gone(item_id, WorkerExit(code=None))

    def _count_places(self) -> None:
        places = sum(node.places for node in self._nodes.values() if node.is_ready)
        if places != self._places:
            self._places = places
            self._events.places_changed(places)

    # What nodes say.

    def _take(self, channel: int, node: _Node, message: FromNode) -> None:
        match message:
            case Wrote(item_id=item_id, block=block):
                self._output[item_id].wrote(as_bytes(block))
            case Said(item_id=item_id, message=said):
                if isinstance(said, ORDERED):
                    self._output[item_id].show_rest()
                self._events.worker_said(item_id, said)
            case Gone():
                self._gone(node, message)
            case Alive(suspended=suspended):
                node.suspended = frozenset(suspended)
            case Hello(is_here=True, pid=pid):
                node.pid = pid
                self._let_load(channel)
            case Hello():
                self._greet_stranger(channel, node)
            case Lacks(keys=keys) if node.parcel is not None:
                node.parcel.send_parts(keys)
            case PieceTaken() if node.parcel is not None:
                node.parcel.send_next()
            case ProjectReady(problem=problem):
                self._project_ready(channel, problem)
            case Branches() | Document() if node.parcel is not None:
                node.parcel.expect(message)
            case Piece() if node.parcel is not None:
                for text in node.parcel.take(message, self._addresses.__getitem__):
                    self._events.noticed(text)
            case Reached() | Carried() | CarriedTaken() | HungUp() if node.way_back is not None:
                node.way_back.take(message)
            case Loaded():
                self._loaded(node, message)
            case NotLoaded(message=text, place=place, is_usage=is_usage, has_died=has_died):
                text = self._redactor.redact_text(text)
                failure = LoadFailure(message=text, place=place, is_usage=is_usage, has_died=has_died)
                self._not_loaded(channel, node, failure)
            case AllLost(reason=reason):
                self._fork_server_lost(channel, node, reason)
            case LoadingWrote(block=block):
                self._show_loading(node.loading_output.feed(as_bytes(block)))

    def _let_load(self, channel: int) -> None:
        variables = {name: value for name, value in self._setup.environment.items() if name not in _HIDDEN_VARIABLES}
        node = self._nodes[channel]
        if node.parcel is None:
            # Its own process: what loads the graph is a child of it, and calls models at once.
            self._events.loading(node.pid, node.name)
        else:
            harmless = self._setup.service_variables
            variables = variables_for_others(variables, encrypted=self._is_encrypted, harmless=harmless)
        self._say(channel, Load(environment=variables))
        if self._is_paused:
            self._say(channel, Order(name="pause_output"))

    def _greet_stranger(self, channel: int, node: _Node) -> None:
        """A node that is another machine, or sees another disk."""
        if not is_database(self._setup.checkpoint_address):
            self._refuse(
                channel,
                "it is another machine or has another disk, and checkpoints are files of this one. Keep them in "
                "PostgreSQL: [checkpoints] url in agentos.toml, see docs/howto/cluster.md",
            )
            return
        node.parcel = Parcel(self._project, self._project_dir, lambda message: self._say(channel, message))
        node.way_back = Exit(
            self._loop,
            self._setup.service_port,
            lambda message: self._say(channel, message),
            lambda owner, port: self._reached(node, owner, port),
        )
        self._project.when_packed(lambda: self._offer_project(channel))

    def _reached(self, node: _Node, owner: str, port: int) -> None:
        self._events.worker_reached(loading_on(node.name) if owner == LOADING else owner, port)

    def _offer_project(self, channel: int) -> None:
        if channel not in self._nodes:
            return
        if self._project.problem:
            self._refuse(channel, f"the project cannot travel there: {self._project.problem}")
        else:
            self._say(channel, self._project.offer())

    def _project_ready(self, channel: int, problem: str) -> None:
        if problem:
            self._refuse(channel, f"the project cannot be made there: {problem}")
        else:
            self._let_load(channel)

    def _refuse(self, channel: int, reason: str) -> None:
        """The node takes no items. Without any other the run cannot begin."""
        node = self._nodes[channel]
        node.places = 0
        node.is_refused = True
        if not self._is_loaded and all(each.is_refused for each in self._nodes.values()):
            self._fail(self._trouble(f"{node.name} cannot be used: {reason}"))
        else:
            self._events.noticed(f"{node.name} is not used: {reason}")

    def _fork_server_lost(self, channel: int, node: _Node, reason: str) -> None:
        node.is_ready = False
        node.losses += 1
        if node.losses > _MOST_LOSSES:
            self._use_no_more(node, f"{reason} {node.losses} times")
        else:
            self._events.noticed(f"{node.name}: {reason}; starting another")
            self._let_load(channel)
        self._count_places()

    def _show_loading(self, block: bytes) -> None:
        """Of the first node that loads: others print the same."""
        if block and not self._has_ever_loaded:
            self._events.loading_wrote(block)

    def _loaded(self, node: _Node, message: Loaded) -> None:
        self._show_loading(node.loading_output.finish())
        node.is_ready = True
        self._count_places()
        self._is_loaded = self._has_ever_loaded = True
        self._events.loaded(message.input_keys if message.has_input_keys else None, message.notice, node.name)
        while self._waiting and any(each.free > 0 for each in self._nodes.values()):
            self.start(self._waiting.popleft())

    def _not_loaded(self, channel: int, node: _Node, failure: LoadFailure) -> None:
        self._show_loading(node.loading_output.finish())
        if failure.has_died and self._has_ever_loaded:
            # The graph does load: somebody killed it.
            self._fork_server_lost(channel, node, "the process that loads the graph was killed")
        elif not self._is_loaded:
            self._fail(failure)
        else:
            self._use_no_more(node, f"the graph does not load there: {failure.message}")

    def _gone(self, node: _Node, message: Gone) -> None:
        node.items.discard(message.item_id)
        self._where.pop(message.item_id, None)
        code = None if message.is_lost else message.code
        end = WorkerExit(code=code, leaked=tuple(message.leaked), fault=message.fault)
        self._output.pop(message.item_id).end()
        self._events.worker_gone(message.item_id, end)
