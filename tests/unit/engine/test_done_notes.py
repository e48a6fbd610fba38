"""Which items are done, and how they are forgotten: all in one step, whatever a kill leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.engine.done_notes import Done, FileNotes
from agentos.outcomes import COMPLETED

DONE = Done("hash", COMPLETED, "run-1")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileNotes:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    made = FileNotes(tmp_path, "flow")
    for item_id in ("a", "b", "c"):
        made.mark_done(item_id, DONE)
    return made


def test_what_is_forgotten_is_gone_and_the_rest_stays(notes: FileNotes) -> None:
    notes.forget_all(["a", "b", "never-ran"], "run-1")
    assert [notes.done(item_id, "hash") for item_id in ("a", "b", "c")] == [None, None, DONE]


def test_a_kill_while_notes_are_forgotten_leaves_none_of_them(
    notes: FileNotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: FileNotes, item_id: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as kill:
        kill.setattr(FileNotes, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            notes.forget_all(["a", "b"], "run-1")
    later = FileNotes(tmp_path, "flow")
    assert [later.done(item_id, "hash") for item_id in ("a", "b", "c")] == [None, None, DONE]
    later.mark_done("a", Done("hash", COMPLETED, "run-2"))
    assert [bool(later.done(item_id, "hash")) for item_id in ("a", "b", "c")] == [True, False, True]


def test_without_notes_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    FileNotes(tmp_path, "flow").forget_all(["a"], "run-1")
    assert not (tmp_path / "home").exists()
