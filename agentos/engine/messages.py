"""What coordinator and worker say to each other: typed messages, one line of JSON each, over a socket pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from agentos.engine.checkpoints.access import StoreAccess
from agentos.keys.leases import LeaseAnswer, LeaseRequest
from agentos.keys.secret_index import Marks
from agentos.wire import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class StartItem:
    """Down, first: everything the worker needs."""

    item_id: str
    workflow: str
    run_id: str
    attempt: int
    input: Any
    checkpoint_address: str
    work_dir: str
    fresh: bool
    heartbeat_seconds: float
    stop_grace_seconds: float
    environment: dict[str, str]
    marks: Marks = field(default_factory=Marks)
    """Finds secrets that nothing the worker keeps may show, wherever it got them from. It is told none of them."""
    options: dict[str, Any] = field(default_factory=dict)
    """How to run the graph: see `worker.py`."""
    access: StoreAccess = field(default_factory=StoreAccess)
    """To what its checkpoint is kept in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proceed:
    """Down: the node you announced may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopItem:
    """Down: abandon the node in flight and exit; the last checkpoint stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWriter:
    """Down: the item of this run that writes the document, whoever asked."""

    path: str
    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOpened:
    """Up: the database is open and the input accepted. `resumed_after` is None for a fresh start."""

    resumed_after: str | None
    pid: int
    """0 where it would be a number of another machine."""
    """For people and records: nobody acts on it."""
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady:
    """Up: these nodes are on disk, and this one wants to start. Answered by Proceed, or by StopItem."""

    node: str
    finished: list[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentNamed:
    """Up: a node writes this document. Answered by DocumentWriter."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Up: the interpreter still takes turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomData:
    """Up: a node wrote this to its stream."""

    node: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDone:
    """Up, last: the graph came to its end, or parked. Outputs are staged beside these paths."""

    outcome: str
    reason: str
    finished: list[tuple[str, float]]
    outputs: list[str]
    is_parked: bool = False
    state: str = ""
    """What the graph came to, as JSON; empty when nobody asked for it."""
    interrupts: str = ""
    """What it asks a person, as JSON."""
    models: str = ""
    """What its own models reported of their use, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailed:
    """Up, last: an exception, as text."""

    error_type: str
    message: str
    traceback: str
    finished: list[tuple[str, float]]
    is_run_fault: bool = False
    """The checkpoint could not be written: the run must not go on."""
    cause: str = ""
    """A `Cause`, where something follows from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStopped:
    """Up, last: stopped as asked."""


DownMessage = StartItem | Proceed | StopItem | DocumentWriter | LeaseAnswer
UpMessage = (
    ItemOpened
    | NodeReady
    | DocumentNamed
    | CustomData
    | Heartbeat
    | ItemDone
    | ItemFailed
    | ItemStopped
    | LeaseRequest
)
Message = DownMessage | UpMessage
ORDERED = (NodeReady, ItemDone, ItemFailed, ItemStopped)
"""Messages that people see among the lines of output, each at its place."""

_codec: Codec[Message] = Codec(*get_args(Message))
_down: Codec[DownMessage] = Codec(*get_args(DownMessage))
_up: Codec[UpMessage] = Codec(*get_args(UpMessage))


def prepare() -> None:
    """Before workers are forked: what each of them would else work out by itself."""
    _codec.prepare()
    _down.prepare()


def encode(message: Message) -> bytes:
    return _codec.encode(message)


def decode_down(line: bytes) -> DownMessage:
    """In the worker. Raises ValueError on anything that `encode` did not write."""
    return _down.decode(line)


def decode_up(line: bytes) -> UpMessage:
    """In the coordinator. Raises ValueError on anything that no worker says: a node may have found the socket."""
    return _up.decode(line)
