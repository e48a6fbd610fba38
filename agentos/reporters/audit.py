"""The audit: every fact of a run as JSON Lines, for the run and for each item, written as it happens."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentos.events import ItemEnded, ItemRetried, ItemStarted, OutputProduced, ResultProduced, Stamped, to_record
from agentos.records.runs import AUDIT_NAME
from agentos.reporters.item_files import AppendFile, ItemFiles
from agentos.reporters.sink import Sink


def item_audit_name(item_id: str) -> str:
    """The name of an item's audit file in the run's folder."""
    return f"workflow-audit-{item_id}.jsonl"


class AuditReporter:
    """Writes each record to the run's file, to its item's file, and to `extra_sink` if there is one.

    A record is with the operating system when `handle` returns. A failure to write it raises OSError: a run must
    not continue without its audit.
    """

    name = "the audit log"

    def __init__(self, run_dir: Path, extra_sink: Sink | None = None) -> None:
        self._run_file = AppendFile(run_dir / AUDIT_NAME)
        self._item_files = ItemFiles(run_dir, item_audit_name)
        self._extra_sink = extra_sink

    def handle(self, stamped: Stamped) -> None:
        event = stamped.event
        if isinstance(event, OutputProduced | ResultProduced):
            return
        if not self._run_file.is_in_place:
            raise OSError(errno.ESTALE, f"somebody removed, replaced or shortened {AUDIT_NAME} while it was written")
        line = record_line(stamped)
        self._run_file.append(line)
        item_id = getattr(event, "item_id", None)
        if item_id is not None:
            self._append_for_item(item_id, stamped, line)
        if self._extra_sink is not None:
            self._extra_sink.write(line)

    def settle(self) -> None:
        """Each record is where it belongs already."""

    def close(self) -> None:
        self._item_files.close_all()
        self._run_file.close()

    def _append_for_item(self, item_id: str, stamped: Stamped, line: bytes) -> None:
        if isinstance(stamped.event, ItemStarted):
            self._item_files.open(item_id)
        self._item_files.append(item_id, line)
        if isinstance(stamped.event, ItemEnded | ItemRetried):
            self._item_files.close(item_id)


_encode_strictly = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, default=lambda value: _plain(value)
).encode


def record_line(stamped: Stamped) -> bytes:
    """The event's record as one line of ASCII JSON, whatever its values are."""
    record = to_record(stamped)
    try:
        text = _encode_strictly(record)
    except (ValueError, TypeError):
        # JSON knows no infinity and no keys but strings; such values are rare enough to pay for only when they come.
        text = _encode_strictly(_finite(record))
    return text.encode("ascii") + b"\n"


def _plain(value: Any) -> Any:
    """What JSON does not know, as the nearest thing it does."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
