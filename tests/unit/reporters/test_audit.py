"""The audit holds every fact, whole lines only, at once; and says so when it cannot."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from agentos.events import (
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    KeyCoolingDown,
    NodeStarted,
    OutputProduced,
    RunEnded,
    Stamped,
    Warned,
)
from agentos.outcomes import APPROVED, SKIPPED
from agentos.records.runs import read_audit
from agentos.reporters.audit import AuditReporter, record_line
from agentos.reporters.item_files import AppendFile

AT = "2026-10-05T12:00:00.000Z"


def stamped(event: Event, sequence: int = 1) -> Stamped:
    return Stamped(sequence, AT, "run-1", event)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Recording:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes, /) -> None:
        self.data += data


def test_every_event_but_output_is_in_the_runs_file_and_each_items_own(tmp_path: Path) -> None:
    sink = Recording()
    reporter = AuditReporter(tmp_path, sink)
    events: list[Event] = [
        ItemStarted(item_id="a", attempt=1, pid=7),
        ItemStarted(item_id="b", attempt=1, pid=8),
        OutputProduced(item_id="a", block=b"secret-free text\n"),
        NodeStarted(item_id="b", node="N1"),
        ItemRetried(item_id="b", attempt=1, reason="killed"),
        ItemEnded(item_id="a", outcome=APPROVED, seconds=1),
        ItemEnded(item_id="c", outcome=SKIPPED, seconds=0, reason="dependency b failed"),
        Warned(text="é\n"),
    ]
    for number, event in enumerate(events):
        reporter.handle(stamped(event, number))
    reporter.close()
    whole = records(tmp_path / "workflow-audit.jsonl")
    assert [record["seq"] for record in whole] == [0, 1, 3, 4, 5, 6, 7]
    assert whole[0] == {
        "v": 1, "seq": 0, "time": AT, "run": "run-1", "type": "item_started",
        "item": "a", "attempt": 1, "pid": 7, "resumed_after": None, "cluster_node": "",
    }  # fmt: skip
    for item_id, kinds in {
        "a": ["item_started", "item_ended"],
        "b": ["item_started", "node_started", "item_retried"],
        "c": ["item_ended"],
    }.items():
        own = records(tmp_path / f"workflow-audit-{item_id}.jsonl")
        assert own == [record for record in whole if record.get("item") == item_id]
        assert [record["type"] for record in own] == kinds
    assert sink.data == (tmp_path / "workflow-audit.jsonl").read_bytes()
    assert sink.data.isascii()
    assert b": " not in sink.data


def test_a_record_is_on_disk_when_handle_returns_and_only_for_the_owner(tmp_path: Path) -> None:
    reporter = AuditReporter(tmp_path)
    reporter.handle(stamped(Warned(text="now")))
    path = tmp_path / "workflow-audit.jsonl"
    assert records(path)[0]["text"] == "now"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    reporter.close()


def test_a_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real_write = os.write

    def counting_write(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return real_write(descriptor, data)

    reporter = AuditReporter(tmp_path)
    monkeypatch.setattr(os, "write", counting_write)
    reporter.handle(stamped(Warned(text="x" * 100_000)))
    reporter.close()
    assert len(sizes) == 1
    assert sizes[0] > 100_000


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    reporter = AuditReporter(tmp_path)
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:7]))
    reporter.handle(stamped(Warned(text="whole")))
    reporter.close()
    assert records(tmp_path / "workflow-audit.jsonl")[0]["text"] == "whole"


def test_a_full_disk_is_raised_and_a_torn_line_does_not_swallow_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    left = [20]

    def nearly_full(descriptor: int, data: bytes) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: left[0]]
        left[0] -= len(part)
        return real_write(descriptor, part)

    reporter = AuditReporter(tmp_path)
    with monkeypatch.context() as context:
        context.setattr(os, "write", nearly_full)
        with pytest.raises(OSError, match="No space left"):
            reporter.handle(stamped(Warned(text="lost")))
    reporter.handle(stamped(Warned(text="kept")))
    reporter.close()
    assert [each.event for each in read_audit(tmp_path)] == [Warned(text="kept")]


def test_a_folder_that_cannot_be_written_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditReporter(tmp_path / "gone")


@pytest.mark.parametrize(
    ("event", "field", "expected"),
    [
        (KeyCoolingDown(key_number=1, key_name="a", seconds=float("inf")), "seconds", "inf"),
        (Warned(text=Path("/x")), "text", "/x"),  # type: ignore[arg-type]
        (Warned(text={1, 2}), "text", ["1", "2"]),  # type: ignore[arg-type]
        (Warned(text=("a", float("nan"))), "text", ["a", "nan"]),  # type: ignore[arg-type]
        (Warned(text="\udc80"), "text", "\udc80"),
        (
            RunEnded(counts=MappingProxyType({"a": 1}), left=(), wall_seconds=1, item_seconds=1, exit_code=0),
            "counts",
            {"a": 1},
        ),
        (
            RunEnded(counts={("a",): 1}, left=(), wall_seconds=1, item_seconds=1, exit_code=0),  # type: ignore[dict-item]
            "counts",
            {"('a',)": 1},
        ),
    ],
)
def test_values_json_does_not_know_are_written_as_something_near(event: Event, field: str, expected: object) -> None:
    line = record_line(stamped(event))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line, parse_constant=pytest.fail)[field] == expected


def test_an_appended_file_is_never_truncated(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        file = AppendFile(tmp_path / "f")
        file.append(text)
        file.close()
    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("how", ["removed", "moved away", "replaced", "emptied"])
def test_an_audit_that_is_no_longer_in_its_place_is_noticed_with_the_next_record(tmp_path: Path, how: str) -> None:
    """What is written to a file that nobody can find is lost."""
    reporter = AuditReporter(tmp_path)
    reporter.handle(stamped(Warned(text="one")))
    path = tmp_path / "workflow-audit.jsonl"
    if how == "removed":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        path.rename(tmp_path / "elsewhere")
    if how == "replaced":
        path.touch()
    with pytest.raises(OSError, match="somebody removed, replaced or shortened"):
        reporter.handle(stamped(Warned(text="two")))
    reporter.close()
