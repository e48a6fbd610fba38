"""Lineage: an append-only history of one item's documents."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from agentos.errors import InvalidIdentifier
from agentos.workflows.lineage import Lineage


def test_entries_are_numbered_in_order_and_read_back(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path / "item")
    assert lineage.entries() == []
    for kind, content in (
        ("issue", "a\r\n"),
        ("prompt-design", "b"),
        ("draft", "c"),
        ("verdict", "{}"),
        ("draft", "d"),
    ):
        assert lineage.record(kind, content).read() == content
    assert [entry.path.name for entry in lineage.entries()] == [
        "001-issue.md", "002-prompt-design.md", "003-draft.md", "004-verdict.json", "005-draft.md",
    ]  # fmt: skip
    latest = lineage.latest("draft")
    assert latest is not None
    assert latest.read() == "d"
    assert lineage.latest("nothing") is None
    assert [entry.number for entry in lineage.entries("draft")] == [3, 5]


def test_a_step_that_runs_again_writes_nothing_twice(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path)
    lineage.record("issue", "a")
    before = lineage.last_number()
    first = (lineage.record("prompt-design", "p", after=before), lineage.record("draft", "d", after=before))
    again = (lineage.record("prompt-design", "p", after=before), lineage.record("draft", "d", after=before))
    assert first == again
    assert lineage.record("draft", "d") == first[1]
    later = lineage.record("draft", "d", after=lineage.last_number())
    assert later.number == 4, "a later step may say the same again"


def test_files_that_are_no_entries_are_ignored_and_kept(tmp_path: Path) -> None:
    for name in ("notes.txt", ".002.tmp", "x-draft.md", "007-UPPER.md"):
        (tmp_path / name).write_text("x")
    lineage = Lineage(tmp_path)
    assert lineage.record("issue", "a").number == 1
    assert lineage.record("draft", "b").number == 3, "a killed writer's claim costs its number"
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize("kind", ["", "../x", "a/b", "Draft", "a.b", "-x", "x" * 80])
def test_kinds_cannot_leave_the_folder(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InvalidIdentifier):
        Lineage(tmp_path).record(kind, "x")
    assert list(tmp_path.iterdir()) == []


def _write_many(directory: Path, writer: int) -> None:
    lineage = Lineage(directory)
    for index in range(15):
        lineage.record(f"draft-{writer}", f"{writer}:{index}")


def test_writers_in_several_processes_never_share_a_number(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    entries = Lineage(tmp_path).entries()
    assert len(entries) == 45
    assert len({entry.number for entry in entries}) == 45
    assert not list(tmp_path.glob(".*"))
    for number in range(3):
        own = [entry.read() for entry in Lineage(tmp_path).entries(f"draft-{number}")]
        assert own == [f"{number}:{index}" for index in range(15)]
