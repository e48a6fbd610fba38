"""The format of a run's audit on disk: its lines read back as events.

Reading trusts nothing: a value of the wrong type, an unknown kind or half a line gives no record, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import get_args

from agentos.events import RECORD_VERSION, Event, Stamped
from agentos.records.values import WrongShape, expect, values_of


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
        record = expect(dict, json.loads(line))
        if expect(int, record.get("v", RECORD_VERSION)) > RECORD_VERSION:
            return Unreadable.NEWER
        kind = _EVENTS.get(expect(str, record["type"]).title().replace("_", ""))
        if kind is None:
            return Unreadable.UNKNOWN
        if "item" in record:
            record["item_id"] = record["item"]
        event = kind(**values_of(kind, record))
        return Stamped(expect(int, record["seq"]), expect(str, record["time"]), expect(str, record["run"]), event)
    except (ValueError, KeyError, OverflowError, RecursionError, WrongShape):
        return Unreadable.DAMAGED


_EVENTS: dict[str, Callable[..., Event]] = {kind.__name__: kind for kind in get_args(Event)}
