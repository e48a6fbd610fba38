"""Any Python value as JSON: what JSON cannot say is named, never dropped."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from agentos.wire import one_line_of_json

_MOST_LEVELS = 60
_MOST_REPR_CHARACTERS = 1_000
_WHOLE: tuple[dict[str, bool], ...] = ({"polymorphic_serialization": True}, {"serialize_as_any": True})
KIND = "$type"
"""The key that marks a value which JSON has no word for."""


def json_text(value: Any) -> str:
    """One line, see `one_line_of_json`."""
    return one_line_of_json(to_plain(value))


def to_plain(value: Any, levels: int = _MOST_LEVELS) -> Any:
    """The value in dicts, lists, strings, numbers, booleans and None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return to_plain(value.value, levels - 1)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _named(value, repr=repr(value))
    if levels <= 0:
        return _named(value, repr="nested too deeply to show")
    try:
        return _composed(value, levels - 1)
    except Exception as error:
        # Whatever a user's own class does when it is looked at, the rest of the state is still told.
        return _named(value, error=f"{type(error).__name__}: {error}"[:_MOST_REPR_CHARACTERS])


def _composed(value: Any, levels: int) -> Any:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | PurePath | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _named(value, base64=base64.b64encode(bytes(value)).decode())
    if hasattr(value, "model_dump"):
        return _model(value, levels)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name), levels) for each in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_plain(part, levels) for name, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return _mapping(value, levels)
    if isinstance(value, Set):
        parts = [to_plain(part, levels) for part in value]
        return sorted(parts, key=lambda part: json.dumps(part, sort_keys=True))
    if isinstance(value, Sequence):
        return [to_plain(part, levels) for part in value]
    return _named(value, repr=repr(value)[:_MOST_REPR_CHARACTERS])


def _model(value: Any, levels: int) -> Any:
    """Messages, documents and other models: as their own JSON, but for fields that have none."""
    try:
        return to_plain(_dumped(value), levels)
    except Exception:
        names = {**type(value).model_fields, **(getattr(value, "model_extra", None) or {})}
        return {name: to_plain(getattr(value, name, None), levels) for name in names}


def _dumped(value: Any) -> Any:
    """With all fields of what is inside, too: by itself Pydantic gives of an AIMessage in a `list[BaseMessage]` only
    what all messages have.
    """
    for options in _WHOLE:
        with suppress(TypeError):  # Pydantic before 2.13, and before 2.7.
            return value.model_dump(mode="json", **options)
    return value.model_dump(mode="json")


def _mapping(value: Mapping[Any, Any], levels: int) -> Any:
    if all(isinstance(key, str) for key in value):
        return {str(key): to_plain(part, levels) for key, part in value.items()}
    keys = [str(key.value if isinstance(key, enum.Enum) else key) for key in value]
    if len(set(keys)) == len(keys) and all(isinstance(key, str | int | bool | enum.Enum) for key in value):
        return {key: to_plain(part, levels) for key, part in zip(keys, value.values(), strict=True)}
    return _named(value, items=[[to_plain(k, levels), to_plain(v, levels)] for k, v in value.items()])


def _named(value: Any, **what: Any) -> dict[str, Any]:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {KIND: name, **what}
