"""The format of records is a contract: the page names every event and field; readers pass over what is new."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from agentos.events import (
    Event,
    ItemEnded,
    NodeStarted,
    OutputProduced,
    ResultProduced,
    RunStarted,
    Stamped,
    to_record,
)
from agentos.outcomes import APPROVED
from agentos.records.format import Unreadable, parse_record, read_record
from agentos.reporters.audit import record_line

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "records.md").read_text()
ROWS = {
    row[0]: set(re.findall(r"`(\w+)`", row[1])) for row in re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", PAGE, re.M)
}
NODE = Stamped(7, "2026-11-18T02:15:00.123Z", "20261118-021500-123456", NodeStarted(item_id="42", node="N1_design"))


@pytest.mark.parametrize("kind", [k for k in get_args(Event) if k not in (OutputProduced, ResultProduced)])
def test_the_page_has_every_event_with_its_fields(kind: type) -> None:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    assert ROWS[name] == {"item" if each.name == "item_id" else each.name for each in fields(kind)}  # type: ignore[arg-type]


def test_the_line_of_the_page_is_one() -> None:
    (line,) = re.findall(r"^(\{.*\})$", PAGE, re.M)
    assert read_record(line.encode()) == NODE
    assert line.encode() == record_line(NODE).strip()


def changed(**values: object) -> bytes:
    return json.dumps({**to_record(NODE), **values}).encode()


def test_an_unknown_field_is_passed_over() -> None:
    assert read_record(changed(mood="good", node="N2")) == Stamped(
        NODE.sequence, NODE.time, NODE.run_id, NodeStarted(item_id="42", node="N2")
    )


def test_an_unknown_event_is_passed_over_and_is_no_damage() -> None:
    line = changed(type="moon_phase_changed")
    assert read_record(line) is Unreadable.UNKNOWN
    assert parse_record(line) is None


def test_a_later_version_is_passed_over_whatever_it_says() -> None:
    assert read_record(changed(v=2)) is Unreadable.NEWER
    assert parse_record(changed(v=2)) is None


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"v":"1"}', b'{"type":7}', b"\xff", b"[" * 100_000])
def test_what_is_no_record_is_damaged(line: bytes) -> None:
    assert read_record(line) is Unreadable.DAMAGED


def test_a_record_of_an_earlier_version_has_empty_values_for_new_fields() -> None:
    started = RunStarted(workflow="lld", project_dir="/shop", items=("1",), parallel=1, pid=1)
    ended = ItemEnded(item_id="1", outcome=APPROVED, seconds=1.0)
    for event, new in ((started, ("titles", "python", "budget_usd")), (ended, ("cause", "cost_usd"))):
        record = to_record(Stamped(1, NODE.time, NODE.run_id, event))
        older = {name: value for name, value in record.items() if name not in new}
        assert read_record(json.dumps(older, default=str).encode()) == Stamped(1, NODE.time, NODE.run_id, event)
