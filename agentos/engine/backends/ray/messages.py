"""What the coordinator and the nodes of its run say to each other, and how it is packed for the way between them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from agentos.engine.messages import DownMessage, StartItem, UpMessage
from agentos.wire import Codec

BEAT = b"\n"
"""An empty line: whoever sent it lives."""
BEAT_SECONDS = 0.5
START_SECONDS = 60.0
"""A node process may take this long to its first word, and wait this long for the coordinator's: where much starts at
once, that takes longer than anybody may be silent later."""
NODE_SILENCE_SECONDS = 4.0
"""A node that hears nothing for this long ends its workers: nobody is left to hear of them."""
SUPERVISOR_SILENCE_SECONDS = 5.0
"""A supervisor whose node process says nothing for this long kills it: it may have been suspended."""
LOST_AFTER_SECONDS = 7.0
"""A node that is no sign of life for this long is lost. By then it has ended its workers, if it still runs at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Down, first: what all workers of the run have in common."""

    run_id: str
    graph: str
    search_dir: str
    project_dir: str
    project_identity: str
    """Which folder of which disk that is."""
    python: str
    extension: str
    extension_options: dict[str, Any]
    fork: bool
    checkpoint_address: str
    service_port: int
    """Of the coordinator's loopback; 0 without one."""
    meeting_path: str
    """A socket that only processes of the coordinator's machine can find."""
    meeting_word: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeProject:
    """Down, to a node that has another disk: the project, as parts that it may have from an earlier run."""

    commits: str
    """Empty for a project without git."""
    files: str
    deleted: tuple[str, ...]
    head: str
    shallow: tuple[str, ...]
    """Commits whose parents the coordinator does not have either."""
    home_dir: str
    """Where the coordinator keeps what documents may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Both ways: a piece of something that is too long for one message, in base64. Answered by PieceTaken."""

    key: str
    data: str
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTaken:
    """Up: send the next one."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """Both ways: where branches are by now; the piece of this key has their commits."""

    key: str
    branches: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Up, before the item is done: the piece of this key is what the item has written to the path."""

    item_id: str
    key: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacks:
    """Up: parts of the project that the node does not have."""

    keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReady:
    """Up: the graph can be loaded. The problem, if there is one, is why it cannot."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Down: load the graph. What must not be seen in its output is masked by the coordinator."""

    environment: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWorker:
    """Down: make a worker."""

    message: StartItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Down: for an item's worker."""

    item_id: str
    message: DownMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class KillWorker:
    """Down."""

    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Down: to all workers of the node; the name is that of a method of `Backend`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Down, last: end everything within this time and leave."""

    within_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Up: a worker has connected to what leads to the coordinator's port; its connection has this number."""

    stream: int
    item_id: str
    """LOADING for what loads the graph; empty for what nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Both ways: bytes of a connection, in base64. Answered by CarriedTaken; the next ones wait for that."""

    stream: int
    data: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedTaken:
    """Both ways."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HungUp:
    """Both ways, last of a connection."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Up, first."""

    is_here: bool
    """The node is this machine and sees its files."""
    pid: int
    """Of the node's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Up."""

    input_keys: list[str]
    has_input_keys: bool
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLoaded:
    """Up."""

    message: str
    place: str
    is_usage: bool
    has_died: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllLost:
    """Up: the node's fork server died; `Gone` follows for each of its workers."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingWrote:
    """Up."""

    block: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Up: of an item's worker."""

    item_id: str
    message: UpMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote:
    """Up: output of an item's worker, whose bytes are in the text as `surrogateescape` has them."""

    item_id: str
    block: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Up, last of an item."""

    item_id: str
    is_lost: bool
    code: int
    leaked: list[int]
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Up, every now and then: with the items whose workers somebody has suspended."""

    suspended: list[str]


ToNode = (
    Begin
    | TakeProject
    | Piece
    | Branches
    | Load
    | StartWorker
    | Tell
    | KillWorker
    | Order
    | End
    | Carried
    | CarriedTaken
    | HungUp
)
FromNode = (
    Hello
    | Lacks
    | PieceTaken
    | ProjectReady
    | Piece
    | Branches
    | Document
    | Loaded
    | NotLoaded
    | AllLost
    | LoadingWrote
    | Said
    | Wrote
    | Gone
    | Alive
    | Reached
    | Carried
    | CarriedTaken
    | HungUp
)

to_node: Codec[ToNode] = Codec(*get_args(ToNode))
from_node: Codec[FromNode] = Codec(*get_args(FromNode))


def as_text(block: bytes) -> str:
    return block.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """To the bridge, first: which cluster, and what the run wants of it."""

    address: str
    run_id: str
    parallel: int
    max_per_node: int
    """0: as many as the node has processors."""
    resources: dict[str, float]
    """What one item takes of a node."""
    makes_environment: bool
    """Let Ray make our Python environment on nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    """Of the bridge: a node has a supervisor, and is spoken to on this channel."""

    channel: int
    name: str
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeft:
    """Of the bridge: nothing comes on this channel any more."""

    channel: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """Of the bridge: something that people should know."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLost:
    """Of the bridge: the cluster's head is gone; nodes that are there may still be for a while."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJoined:
    """Of the bridge, last: this cluster cannot be used."""

    reason: str


OfBridge = NodeJoined | NodeLeft | Noticed | HeadLost | NotJoined

to_bridge: Codec[Join] = Codec(Join)
of_bridge: Codec[OfBridge] = Codec(*get_args(OfBridge))

BRIDGE_CHANNEL = 0
"""What the bridge itself says and hears; other channels are those of nodes."""
_HEADER = struct.Struct(">HI")


def frame(channel: int, payload: bytes | bytearray) -> bytes:
    """The payload as it goes between coordinator and bridge."""
    return _HEADER.pack(channel, len(payload)) + payload


class Frames:
    """Bytes of that connection to payloads, each with its channel."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._data += data
        while len(self._data) >= _HEADER.size:
            channel, length = _HEADER.unpack_from(self._data)
            end = _HEADER.size + length
            if len(self._data) < end:
                return
            payload = bytes(self._data[_HEADER.size : end])
            del self._data[:end]
            yield channel, payload
