"""Frozen records of a state as plain data and back (pure).

A checkpoint holds plain data only: it stays readable when a class moves, and LangGraph has no types to trust.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from agentos.errors import CannotContinueError


class ForeignCheckpoint(CannotContinueError):
    """A saved state is not of the shape this version writes."""

    def __init__(self) -> None:
        super().__init__(
            "this item's checkpoint was written by another version of AgentOS and cannot be continued. "
            "Run with --fresh to start over."
        )


def as_plain(value: Any) -> Any:
    """A record as a dictionary without the fields that have their default; enums by value; collections as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: getattr(value, field.name) for field in dataclasses.fields(value) if _is_set(value, field)
        }
        return {name: as_plain(each) for name, each in fields.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: as_plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(as_plain(each) for each in value)
    return [as_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _is_set(record: Any, field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING or getattr(record, field.name) != field.default


def as_record(kind: Any, value: Any) -> Any:
    """What `as_plain` made of a value of this type. Raises ForeignCheckpoint when it is something else."""
    try:
        return _read(kind, value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ForeignCheckpoint from error


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(each for each in arguments if each is not types.NoneType), value)
    if origin in (tuple, frozenset, list):
        if not isinstance(value, list):
            raise TypeError(f"a list is expected, not {type(value).__name__}")
        return origin(_read(arguments[0], each) for each in value)
    if origin in (dict, Mapping):
        return {key: _read(arguments[1], each) for key, each in value.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _read(hints(kind)[name], each) for name, each in value.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind in (str, int, bool) and type(value) is not kind:
        raise TypeError(f"{kind.__name__} is expected, not {type(value).__name__}")
    return value


def hints(kind: Any) -> dict[str, Any]:
    """The types of a record's fields or of a state's keys."""
    return _hints(kind)


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def latest(_known: int, new: int) -> int:
    """For a number that is 0 until a node sets it."""
    return new
