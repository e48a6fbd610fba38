"""Done-notes of every kind: what a batch has done is known until it is forgotten, wherever it is kept."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from agentos.engine.claims import claims_of
from agentos.engine.done_notes import Done, DoneNotes, notes_of
from agentos.outcomes import COMPLETED

DONE = Done("hash", COMPLETED, "run-1", ("/somewhere/else.md",))


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
def notes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoneNotes:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    if request.param == "postgres":
        monkeypatch.setenv("AGENTOS_CHECKPOINTS__URL", request.getfixturevalue("postgres").url)
        monkeypatch.setenv("AGENTOS_CHECKPOINTS__PROJECT", f"test-{uuid.uuid4().hex}")
    return notes_of(tmp_path, "flow")


def test_a_done_item_is_known_by_its_input(notes: DoneNotes) -> None:
    assert (notes.done("a", "hash"), notes.is_noted("a")) == (None, False)
    notes.mark_done("a", DONE)
    assert (notes.done("a", "hash"), notes.done("a", "another"), notes.is_noted("a")) == (DONE, None, True)
    assert notes.done("b", "hash") is None


def test_a_later_note_replaces_an_earlier_one(notes: DoneNotes) -> None:
    notes.mark_done("a", DONE)
    notes.mark_done("a", Done("new", COMPLETED, "run-2"))
    assert notes.done("a", "new") == Done("new", COMPLETED, "run-2")


def test_what_is_forgotten_is_gone_and_the_rest_stays(notes: DoneNotes) -> None:
    for name in "abc":
        notes.mark_done(name, DONE)
    notes.note_spent(1.5)
    notes.forget("a")
    assert notes.spent_usd() == 1.5
    notes.forget_all(["b"], "run-1")
    assert [notes.is_noted(name) for name in "abc"] == [False, False, True]
    assert notes.spent_usd() == 0.0


def test_what_was_spent_is_known_until_it_is_forgotten(notes: DoneNotes) -> None:
    assert notes.spent_usd() == 0.0
    notes.note_spent(0.25)
    notes.note_spent(0.5)
    assert notes.spent_usd() == 0.5
    notes.forget_spent()
    assert notes.spent_usd() == 0.0


def test_documents_are_found_in_the_project(notes: DoneNotes, tmp_path: Path) -> None:
    done = Done("hash", COMPLETED, "run-1", (str(tmp_path / "docs" / "a.md"),))
    with claims_of(tmp_path) as claims:
        claims.take("flow/a")
        notes.mark_done("a", done)
    assert notes.done("a", "hash") == done
