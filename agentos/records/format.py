"""The format of run records on disk: what `summary.json` holds, and audit lines read back as events.

Reading trusts nothing: a value of the wrong type, an unknown kind or half a line gives no record, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any, TypeVar, get_args

from agentos.events import RECORD_VERSION, Event, Stamped, counts_by_name
from agentos.outcomes import Cause, Outcome, outcome_named

SUMMARY_VERSION = 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSummary:
    """How one item ended."""

    id: str
    outcome: Outcome
    cause: Cause = Cause.OTHER
    reason: str = ""
    seconds: float = 0.0
    attempts: int = 1
    log: str = ""
    """A file in the run's folder."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"outcome": self.outcome.name, "cause": self.cause.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What `summary.json` holds."""

    version: int = SUMMARY_VERSION
    run: str
    workflow: str = ""
    project_dir: str = ""
    label_prefix: str = ""
    resume_command: str = ""
    """Empty when the same command has nothing left to do."""
    folder: str = ""
    """Where the user was: its commands are typed there."""
    start_over_command: str = ""
    """For items that cannot be continued."""
    models: tuple[str, ...] = ()
    """What it was to call, as far as was known before it started."""
    started: str = ""
    ended: str = ""
    """Empty as long as the run has not ended."""
    total: int = 0
    wall_seconds: float = 0.0
    item_seconds: float = 0.0
    working_seconds: float | None = None
    """`item_seconds` without waiting for keys and being suspended; None where it was not measured."""
    speed_up: float = 0.0
    """How many times longer the items' work would have taken one after another; 0 when unknown or not finished."""
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    exit_code: int | None = None
    left: tuple[str, ...] = ()
    items: tuple[ItemSummary, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        items = [item.to_document() for item in self.items]
        return {**document, "counts": counts_by_name(self.counts), "items": items}


class _Unreadable(Exception):
    """A value on disk is not of the shape it should have."""


def parse_summary(text: bytes, *, with_items: bool = True) -> RunSummary | None:
    """The other side of `RunSummary.to_document`; None if it is damaged. Without items it is much faster."""
    try:
        values = _values(RunSummary, json.loads(text))
        items = values.pop("items", []) if with_items else []
        return RunSummary(**{**values, "items": tuple(ItemSummary(**_values(ItemSummary, item)) for item in items)})
    except (ValueError, OverflowError, RecursionError, _Unreadable):
        return None


class Unreadable(Enum):
    """Why a line of a record gives no event."""

    DAMAGED = "damaged"
    UNKNOWN = "unknown"
    """A kind of event that a later version has added. It is passed over."""
    NEWER = "newer"
    """A later version, whose events do not mean what this one takes them for."""


def parse_record(line: bytes) -> Stamped | None:
    """The event of one line of an audit file; None if it is damaged or of a kind this version does not know."""
    record = read_record(line)
    return record if isinstance(record, Stamped) else None


def read_record(line: bytes) -> Stamped | Unreadable:
    """The event of one line of an audit file, or why there is none."""
    try:
        record = _expect(dict, json.loads(line))
        if _expect(int, record.get("v", RECORD_VERSION)) > RECORD_VERSION:
            return Unreadable.NEWER
        kind = _EVENTS.get(_expect(str, record["type"]).title().replace("_", ""))
        if kind is None:
            return Unreadable.UNKNOWN
        if "item" in record:
            record["item_id"] = record["item"]
        event = kind(**_values(kind, record))
        return Stamped(_expect(int, record["seq"]), _expect(str, record["time"]), _expect(str, record["run"]), event)
    except (ValueError, KeyError, OverflowError, RecursionError, _Unreadable):
        return Unreadable.DAMAGED


_EVENTS: dict[str, Callable[..., Event]] = {kind.__name__: kind for kind in get_args(Event)}


def _values(kind: Any, document: object) -> dict[str, Any]:
    """The document's values for the fields of a record class, each of its field's type."""
    known = _expect(dict, document)
    values = {}
    for each in fields(kind):
        if each.name in known:
            values[each.name] = _READERS[str(each.type)](known[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise _Unreadable
    return values


def _expect(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise _Unreadable
    return value


def _number(value: object) -> float:
    # Infinity is no JSON number: the audit writes it as a string.
    return float(value) if isinstance(value, int | float | str) else _expect(float, value)


def _outcome(value: object) -> Outcome:
    return outcome_named(_expect(str, value))


def _counts(value: object) -> dict[Outcome, int]:
    return {_outcome(key): _expect(int, number) for key, number in _expect(dict, value).items()}


_READERS: dict[str, Callable[[object], Any]] = {
    "str": partial(_expect, str),
    "int": partial(_expect, int),
    "float": _number,
    "bool": partial(_expect, bool),
    "int | None": lambda value: None if value is None else _expect(int, value),
    "str | None": lambda value: None if value is None else _expect(str, value),
    "float | None": lambda value: None if value is None else _number(value),
    "tuple[str, ...]": lambda value: tuple(_expect(str, each) for each in _expect(list, value)),
    "tuple[int, ...]": lambda value: tuple(_expect(int, each) for each in _expect(list, value)),
    "tuple[ItemSummary, ...]": partial(_expect, list),
    "Outcome": _outcome,
    "Cause": lambda value: Cause(_expect(str, value)),
    "Mapping[Outcome, int]": _counts,
    "Any": lambda value: value,
    "bytes": lambda value: _expect(str, value).encode(),
}
"""By the type a field is declared with."""
