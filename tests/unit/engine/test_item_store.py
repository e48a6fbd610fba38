"""The coordinator's hand on an item's files: what is written first, and what a failure leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemCheckpoint, ItemRef
from agentos.engine.claims import FileClaims, claim_name
from agentos.engine.documents import ItemDocuments, Writers, WrittenByAnother, staged_path, written_by
from agentos.engine.done_notes import FileNotes
from agentos.engine.item_end import ItemEnd
from agentos.engine.item_store import ItemStore
from agentos.engine.plan import Item, input_hash
from agentos.engine.schedule import Ending
from agentos.outcomes import COMPLETED, FAILED


class Bench:
    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self.lock_path = root / "claims.lock"
        self.claims = FileClaims(self.lock_path)
        self.store = ItemStore(self.project, "flow", self.claims)
        self.writers = Writers(self.project)

    def keep(self, item_id: str, *documents: Path) -> None:
        """A checkpoint with documents that wait in it, and staged beside their place."""
        with closing(self.open(item_id)) as checkpoint:
            written = ItemDocuments(item_id, checkpoint, lambda path: self.writers.writer_of(path, item_id))
            for document in documents:
                written.keep(document, f"text of {item_id}".encode())
            assert written.stage(self.store.checkpoint_address(item_id)) == [str(d) for d in documents]

    def staged(self, item_id: str, document: Path) -> Path:
        return staged_path(str(document), self.store.checkpoint_address(item_id))

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
    assert bench.store.publish("a", end) is end
    assert document.read_bytes() == b"text of a"
    assert [path.name for path in bench.project.iterdir()] == ["a.md"]


def test_a_document_that_cannot_be_placed_fails_its_item_and_keeps_its_checkpoint(bench: Bench) -> None:
    document = bench.project / "a.md"
    document.mkdir()
    bench.keep("a", document)
    end = bench.store.publish("a", done(document))
    assert (end.ending, end.outcome, end.has_succeeded) == (Ending.NOT_DONE, FAILED, False)
    assert f"cannot write {document}" in end.reason
    assert bench.store.has_checkpoint("a")


def test_documents_of_an_unfinished_item_are_dropped_and_stay_in_its_checkpoint(bench: Bench) -> None:
    document = bench.project / "a.md"
    bench.keep("a", document)
    bench.store.drop_unfinished_documents("a")
    assert list(bench.project.iterdir()) == []
    with closing(bench.open("a")) as checkpoint:
        assert list(checkpoint.outputs()) == [(str(document), b"text of a")]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_regular_file_is_not_replaced_by_a_document(bench: Bench, make: Callable[[Path], None]) -> None:
    """It came there after the node had written: a device would be gone from the machine."""
    document = bench.project / "a.md"
    bench.keep("a", document)
    make(document)
    before = document.lstat()
    end = bench.store.publish("a", done(document))
    assert end.outcome is FAILED
    assert f"cannot write {document}" in end.reason
    assert document.lstat().st_mode == before.st_mode


def test_a_path_that_no_file_can_have_fails_its_item(bench: Bench) -> None:
    """A node that found its worker's socket can name anything."""
    assert bench.store.publish("a", done(Path("a\0b"))).outcome is FAILED


def test_the_second_writer_of_a_document_is_refused_with_both_names(bench: Bench) -> None:
    document = bench.project / "shared.md"
    bench.keep("a", document)
    with pytest.raises(WrittenByAnother) as caught:
        bench.keep("b", document)
    assert f"{document} is the document of item a and stays so; b needs a path of its own" in str(caught.value)
    bench.store.drop_unfinished_documents("b")
    assert bench.staged("a", document).read_bytes() == b"text of a"


def test_items_of_two_runs_that_write_the_same_document_do_not_share_a_staged_file(bench: Bench) -> None:
    document = bench.project / "shared.md"
    bench.keep("a", document)
    bench.writers = Writers(bench.project)
    bench.keep("b", document)
    bench.store.drop_unfinished_documents("b")
    assert bench.store.publish("a", done(document)).has_succeeded
    assert document.read_bytes() == b"text of a"


def test_a_later_run_knows_whose_document_is_there_as_long_as_it_is(bench: Bench) -> None:
    document = bench.project / "a.md"
    bench.keep("a", document)
    assert bench.store.publish("a", done(document)).has_succeeded
    assert Writers(bench.project).writer_of(str(document), "b") == "a"
    assert list(written_by(bench.project, "a")) == [document]
    document.unlink()
    assert Writers(bench.project).writer_of(str(document), "b") == "b"
    assert list(written_by(bench.project, "a")) == []


def test_a_done_item_is_noted_and_forgotten_with_its_batch(bench: Bench) -> None:
    item = Item(id="a", input={"n": 1})
    bench.store.note_done(item, COMPLETED, "run-1")
    noted = FileNotes(bench.project, "flow").done("a", input_hash(item.input))
    assert noted is not None
    assert (noted.outcome, noted.run_id) == (COMPLETED, "run-1")
    bench.store.forget_done(["a", "never-ran"], "run-1")
    assert FileNotes(bench.project, "flow").done("a", input_hash(item.input)) is None


def test_staged_documents_are_whole_and_beside_their_place(bench: Bench) -> None:
    target = bench.project / "docs" / "new" / "lld-42.md"
    bench.keep("a", target)
    assert bench.staged("a", target).read_bytes() == b"text of a"
    assert not target.exists()


def test_an_item_given_back_is_anybodys(bench: Bench) -> None:
    name = claim_name("flow", "a")
    assert bench.claims.take(name)
    with FileClaims(bench.lock_path) as other:
        assert not other.take(name)
        bench.store.give_back("a")
        assert other.take(name)


def test_whether_a_checkpoint_can_be_kept_is_tried(bench: Bench) -> None:
    assert not bench.store.can_keep("a")  # There is no folder to write to yet.
    bench.keep("a")
    assert bench.store.can_keep("a")
