"""Reads records' plain values back: each of its field's type, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, TypeVar

from agentos.outcomes import Cause, Outcome, outcome_named

_T = TypeVar("_T")


class WrongShape(Exception):
    """A value on disk is not of the shape it should have."""


def values_of(kind: Any, document: object) -> dict[str, Any]:
    """The document's values for the fields of a record class, each of its field's type."""
    known = expect(dict, document)
    values = {}
    for each in fields(kind):
        if each.name in known:
            values[each.name] = _READERS[str(each.type)](known[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise WrongShape
    return values


def expect(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise WrongShape
    return value


def _number(value: object) -> float:
    # Infinity is no JSON number: the audit writes it as a string.
    return float(value) if isinstance(value, int | float | str) else expect(float, value)


def _outcome(value: object) -> Outcome:
    return outcome_named(expect(str, value))


def _counts(value: object) -> dict[Outcome, int]:
    return {_outcome(key): expect(int, number) for key, number in expect(dict, value).items()}


_READERS: dict[str, Callable[[object], Any]] = {
    "str": partial(expect, str),
    "int": partial(expect, int),
    "float": _number,
    "bool": partial(expect, bool),
    "int | None": lambda value: None if value is None else expect(int, value),
    "str | None": lambda value: None if value is None else expect(str, value),
    "float | None": lambda value: None if value is None else _number(value),
    "tuple[str, ...]": lambda value: tuple(expect(str, each) for each in expect(list, value)),
    "tuple[int, ...]": lambda value: tuple(expect(int, each) for each in expect(list, value)),
    "tuple[ItemSummary, ...]": partial(expect, list),
    "Outcome": _outcome,
    "Cause": lambda value: Cause(expect(str, value)),
    "Mapping[Outcome, int]": _counts,
    "Any": lambda value: value,
    "bytes": lambda value: expect(str, value).encode(),
}
"""By the type a field is declared with."""
