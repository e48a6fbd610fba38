"""Frozen records as lines of JSON: written as they are, read strictly. Pure; knows neither runs nor keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

RecordT = TypeVar("RecordT")
Reader = Callable[[Any], Any]

_decode_json = json.JSONDecoder().decode
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Characters that JSON leaves as they are and `str.splitlines` takes for the end of a line."""


def one_line_of_json(value: Any) -> str:
    """One line for every reader. Text stays readable, whatever alphabet it is in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which only an escape can say.
        return json.dumps(value, allow_nan=False)
    return text


class Codec(Generic[RecordT]):
    """Writes and reads the records of a union, with the records they hold: each as `[name, {field: value}]`.

    What a kind is made of is worked out when it is first met: most processes meet few of them.
    """

    def __init__(self, *kinds: type[RecordT]) -> None:
        self._known: set[type] = set()
        self._readers: dict[type, dict[str, Reader]] = {}
        self._read = self._record_reader(kinds)
        self._encode_json = json.JSONEncoder(separators=(",", ":"), default=self._plain).encode

    def encode(self, record: RecordT) -> bytes:
        return self._encode_json(record).encode() + b"\n"

    def decode(self, line: bytes) -> RecordT:
        """Raises ValueError on anything that `encode` did not write. Its text repeats nothing of the line."""
        try:
            record: RecordT = self._read(_decode_json(line.decode()))
        except (TypeError, LookupError, RecursionError) as error:
            raise ValueError(f"malformed message ({type(error).__name__})") from None
        return record

    def prepare(self) -> None:
        """Meet all kinds now: for a process that others are forked from."""
        while unmet := self._known - self._readers.keys():
            for kind in unmet:
                self._field_readers(kind)

    def _plain(self, record: object) -> list[Any]:
        kind = type(record)
        if kind not in self._known:
            raise TypeError(f"{kind.__name__} cannot be sent")
        return [kind.__name__, {name: getattr(record, name) for name in self._field_readers(kind)}]

    def _record_reader(self, kinds: tuple[type, ...]) -> Reader:
        self._known.update(kinds)
        by_name = {kind.__name__: kind for kind in kinds}

        def read(value: Any) -> Any:
            name, data = value
            kind = by_name[name]
            values = {field: read_field(data[field]) for field, read_field in self._field_readers(kind).items()}
            if len(data) != len(values):
                raise ValueError(f"malformed message (unknown fields in {name})")
            return kind(**values)

        return read

    def _field_readers(self, kind: type) -> dict[str, Reader]:
        readers = self._readers.get(kind)
        if readers is None:
            readers = self._readers[kind] = {name: self._reader(hint) for name, hint in _hints(kind).items()}
        return readers

    def _reader(self, hint: Any) -> Reader:
        """Checks a field's value and gives it back as `encode` was given it."""
        if hint is Any:
            return lambda value: value
        arguments = get_args(hint)
        members = arguments if isinstance(hint, UnionType) else (hint,)
        if all(is_dataclass(member) for member in members):
            return self._record_reader(members)
        match get_origin(hint):
            case container if container is list or (container is tuple and arguments[-1] is Ellipsis):
                each = self._reader(arguments[0])
                return lambda value: container(map(each, _list(value)))
            case container if container is tuple:
                readers = [self._reader(argument) for argument in arguments]
                return lambda value: tuple(r(part) for r, part in zip(readers, _list(value), strict=True))
            case container if container is dict:
                of_value = self._reader(arguments[1])
                return lambda value: {name: of_value(part) for name, part in _dict(value).items()}
        return _exactly(*members)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _exactly(*kinds: type) -> Reader:
    # Not isinstance: JSON's `true` is no number.
    accepted = {*kinds, int} if float in kinds else set(kinds)

    def read(value: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError
        return value

    return read


_list, _dict = _exactly(list), _exactly(dict)


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
