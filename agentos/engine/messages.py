"""What coordinator and worker say to each other: typed messages, one line of JSON each, over a socket pair."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class StartItem:
    """Down, first: everything the worker needs."""

    item_id: str
    workflow: str
    run_id: str
    attempt: int
    input: dict[str, Any]
    checkpoint_address: str
    project_dir: str
    fresh: bool
    heartbeat_seconds: float
    stop_grace_seconds: float
    environment: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proceed:
    """Down: the node you announced may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopItem:
    """Down: abandon the node in flight and exit; the last checkpoint stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOpened:
    """Up: the database is open and the input accepted. `resumed_after` is None for a fresh start."""

    resumed_after: str | None
    pid: int
    """For people and records: nobody acts on it."""
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady:
    """Up: these nodes are on disk, and this one wants to start. Answered by Proceed, or by StopItem."""

    node: str
    finished: list[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Up: the interpreter still takes turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDone:
    """Up, last: the graph came to its end, or parked. Outputs stand as `.tmp` beside these paths."""

    outcome: str
    reason: str
    finished: list[tuple[str, float]]
    outputs: list[str]
    is_parked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailed:
    """Up, last: an exception, as text."""

    error_type: str
    message: str
    traceback: str
    finished: list[tuple[str, float]]
    is_run_fault: bool = False
    """The checkpoint could not be written: the run must not go on."""
    exit_code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStopped:
    """Up, last: stopped as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAsk:
    """Up: a model call wants a key. Answered by LeaseGranted or LeaseRefused, whenever that is."""

    ticket: int
    provider: str
    model: str
    estimated_tokens: int
    estimated_cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCancel:
    """Up: the call no longer wants one."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReturn:
    """Up: the key comes back, with what the call showed."""

    key_name: str
    fence: int
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGranted:
    """Down: the key, for one call."""

    ticket: int
    key_name: str
    fence: int
    provider: str
    model: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRefused:
    """Down: waiting would not help. `exit_code` names the kind of error."""

    ticket: int
    exit_code: int
    message: str


DownMessage = StartItem | Proceed | StopItem | LeaseGranted | LeaseRefused
UpMessage = (
    ItemOpened | NodeReady | Heartbeat | ItemDone | ItemFailed | ItemStopped | LeaseAsk | LeaseCancel | LeaseReturn
)
Message = DownMessage | UpMessage

_BY_NAME: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        *(StartItem, Proceed, StopItem, LeaseGranted, LeaseRefused),
        *(ItemOpened, NodeReady, Heartbeat, ItemDone, ItemFailed, ItemStopped),
        *(LeaseAsk, LeaseCancel, LeaseReturn),
    )
}


_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def encode(message: Message) -> bytes:
    name = type(message).__name__
    data = {field_name: getattr(message, field_name) for field_name in _READERS[name]}
    return _encode_json([name, data]).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Raises ValueError on anything that `encode` did not write: a node may have found the socket."""
    try:
        name, data = json.loads(line)
        kind, readers = _BY_NAME[name], _READERS[name]
        values = {field_name: read(data[field_name]) for field_name, read in readers.items()}
        is_exact = len(data) == len(values)
    except (TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"malformed message ({type(error).__name__})") from None
    if not is_exact:
        raise ValueError(f"malformed message (unknown fields in {name})")
    return kind(**values)


def _exactly(*kinds: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        # Not isinstance: JSON's `true` is no number.
        if type(value) not in kinds:
            raise TypeError
        return value

    return read


_text, _number, _list, _dict = _exactly(str), _exactly(float, int), _exactly(list), _exactly(dict)

_READER_OF_ANNOTATION: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _exactly(int),
    "float": _number,
    "bool": _exactly(bool),
    "str | None": _exactly(str, NoneType),
    "float | None": _exactly(float, int, NoneType),
    "dict[str, Any]": _dict,
    "dict[str, str]": lambda value: {name: _text(text) for name, text in _dict(value).items()},
    "list[str]": lambda value: [_text(text) for text in _list(value)],
    "list[tuple[str, float]]": lambda value: [(_text(node), _number(seconds)) for node, seconds in _list(value)],
}
"""Checks a field's value and gives it back as `encode` was given it."""

_READERS = {
    name: {known.name: _READER_OF_ANNOTATION[str(known.type)] for known in fields(kind)}
    for name, kind in _BY_NAME.items()
}


class LineBuffer:
    """Bytes from a socket to whole lines. Linear, whatever the chunks."""

    LIMIT: ClassVar[int] = 256 * 1024 * 1024
    """A peer that sends this much without a newline does not speak our language."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._parts.append(data)
            self._size += len(data)
            if self._size > self.LIMIT:
                raise ValueError("message too long")
            return []
        lines = b"".join([*self._parts, head]).split(b"\n")
        self._parts = [rest] if rest else []
        self._size = len(rest)
        return lines
