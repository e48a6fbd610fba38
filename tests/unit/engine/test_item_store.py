"""The coordinator's hand on an item's files: what is written first, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemCheckpoint, ItemRef
from agentos.engine.claims import Claims, claim_name
from agentos.engine.done_notes import DoneNotes
from agentos.engine.item_end import ItemEnd
from agentos.engine.item_store import ItemStore, stage_documents
from agentos.engine.plan import Item, input_hash
from agentos.engine.schedule import Ending
from agentos.outcomes import COMPLETED, FAILED


class Bench:
    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self.lock_path = root / "claims.lock"
        self.claims = Claims(self.lock_path)
        self.store = ItemStore(self.project, "flow", self.claims)

    def keep(self, item_id: str, *documents: Path) -> None:
        """A checkpoint with documents that wait in it, and as `.tmp` beside their place."""
        with closing(self.open(item_id)) as checkpoint:
            for document in documents:
                checkpoint.keep_output(document, b"text")
            stage_documents(checkpoint.outputs())

    def open(self, item_id: str) -> ItemCheckpoint:
        return store_for(self.project).open(ItemRef("flow", item_id))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    made = Bench(tmp_path)
    yield made
    made.claims.close()


def done(*outputs: Path) -> ItemEnd:
    paths = tuple(str(path) for path in outputs)
    return ItemEnd(ending=Ending.DONE, outcome=COMPLETED, outputs=paths, has_succeeded=True)


def test_documents_of_a_finished_item_take_their_place(bench: Bench) -> None:
    document = bench.project / "a.md"
    bench.keep("a", document)
    end = done(document)
    assert bench.store.publish(end) is end
    assert document.read_bytes() == b"text"
    assert not Path(f"{document}.tmp").exists()


def test_a_document_that_cannot_be_placed_fails_its_item_and_keeps_its_checkpoint(bench: Bench) -> None:
    document = bench.project / "a.md"
    document.mkdir()
    bench.keep("a", document)
    end = bench.store.publish(done(document))
    assert (end.ending, end.outcome, end.has_succeeded) == (Ending.NOT_DONE, FAILED, False)
    assert f"cannot write {document}" in end.reason
    assert bench.store.has_checkpoint("a")


def test_documents_of_an_unfinished_item_are_dropped_and_stay_in_its_checkpoint(bench: Bench) -> None:
    document = bench.project / "a.md"
    bench.keep("a", document)
    bench.store.drop_unfinished_documents("a")
    assert not Path(f"{document}.tmp").exists()
    with closing(bench.open("a")) as checkpoint:
        assert list(checkpoint.outputs()) == [(str(document), b"text")]


def test_a_done_item_is_noted_before_its_checkpoint_goes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item(id="a", input={"n": 1})
    bench.keep("a")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(DoneNotes, "mark_done", fail)
        with pytest.raises(OSError, match="No space left"):
            bench.store.note_done(item, COMPLETED, "run-1")
    assert bench.store.has_checkpoint("a")
    bench.store.note_done(item, COMPLETED, "run-1")
    assert not bench.store.has_checkpoint("a")
    noted = DoneNotes(bench.project, "flow").done("a", input_hash(item.input))
    assert noted is not None
    assert (noted.outcome, noted.run_id) == (COMPLETED, "run-1")
    bench.store.forget_done(["a", "never-ran"], "run-1")
    assert DoneNotes(bench.project, "flow").done("a", input_hash(item.input)) is None


def test_staged_documents_are_whole_and_beside_their_place(tmp_path: Path) -> None:
    target = tmp_path / "docs" / "new" / "lld-42.md"
    assert stage_documents([(str(target), b"final")]) == [str(target)]
    assert Path(f"{target}.tmp").read_bytes() == b"final"
    assert not target.exists()


def test_an_item_given_back_is_anybodys(bench: Bench) -> None:
    name = claim_name("flow", "a")
    assert bench.claims.take(name)
    with Claims(bench.lock_path) as other:
        assert not other.take(name)
        bench.store.give_back("a")
        assert other.take(name)


def test_whether_a_checkpoint_can_be_kept_is_tried(bench: Bench) -> None:
    assert not bench.store.can_keep("a")  # There is no folder to write to yet.
    bench.keep("a")
    assert bench.store.can_keep("a")
