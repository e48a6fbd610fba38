"""Results of items on disk: one line of JSON per item, in a run's folder and where the user wants them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.files import open_record
from agentos.paths import runs_dir

RESULTS_NAME = "results.jsonl"
_START = b'{"id": "'
"""How each line of ours begins."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where an item's line is in a file of results."""

    path: Path
    offset: int
    length: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


def results_path(run_id: str) -> Path:
    return runs_dir() / run_id / RESULTS_NAME


def spans(path: Path) -> dict[str, Span]:
    """Each item's last line, in the order of the file. A last line that is not whole does not count.

    Raises ValueError when a line is no result, nor the beginning of one.
    """
    found: dict[str, Span] = {}
    for offset, line in _lines(path):
        if not line.endswith(b"\n"):
            _refuse_foreign(line)
            break
        item_id = _id_in(line)
        found.pop(item_id, None)
        found[item_id] = Span(path, offset, len(line))
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_record(path) as file:
            offset = 0
            for line in file:
                if line.strip():
                    yield offset, line
                offset += len(line)
    except FileNotFoundError:
        return


def _refuse_foreign(torn: bytes) -> None:
    """What a kill has cut, or a power cut filled with zeros, is ours; a document without a last newline is not."""
    text = torn.strip(b"\0")
    if not text.startswith(_START[: len(text)]):
        raise ValueError("not a line of results")
    try:
        _parsed(text)
    except ValueError:
        return
    _id_in(text)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply to be a result") from None


def _id_in(line: bytes) -> str:
    record = _parsed(line)
    if not isinstance(record, dict) or not isinstance(record.get("id"), str) or "outcome" not in record:
        raise ValueError("not a line of results")
    return str(record["id"])


def read_results(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The results of a run so far, one per item."""
    for span in known_spans(run_dir / RESULTS_NAME).values():
        record: dict[str, Any] = json.loads(span.read())
        yield record


def known_spans(path: Path) -> dict[str, Span]:
    """`spans` of a file of our own: a damaged one has none."""
    try:
        return spans(path)
    except (ValueError, OSError):
        return {}


def users_spans(path: Path) -> dict[str, Span]:
    """`spans` of the user's file. Raises UsageError when it is something else, which must not be lost."""
    try:
        return spans(path)
    except ValueError:
        raise UsageError(
            f"--output {str(path)!r} has something other than results in it. Give another name, or remove it."
        ) from None
    except OSError as error:
        raise UsageError(f"--output {str(path)!r}: {error.strerror}.") from None


def earlier_spans(run_of_item: Mapping[str, str]) -> dict[str, Span]:
    """The lines of items that earlier runs have done, by item; those of pruned runs are gone."""
    by_run = {run_id: known_spans(results_path(run_id)) for run_id in set(run_of_item.values())}
    return {item: by_run[run_id][item] for item, run_id in run_of_item.items() if item in by_run[run_id]}
