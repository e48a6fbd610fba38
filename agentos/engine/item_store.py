"""What the coordinator does with an item's files: documents, checkpoint, the note that it is done, its claim."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentos.engine.checkpoints import sqlite as checkpoint
from agentos.engine.claims import Claims, claim_name
from agentos.engine.done_notes import Batch, Done
from agentos.engine.item_end import ItemEnd, without_documents
from agentos.engine.plan import Item, input_hash
from agentos.outcomes import Outcome
from agentos.paths import checkpoints_dir


class ItemStore:
    """The files of one workflow's items in one project, while a run holds their claims."""

    def __init__(self, project_dir: Path, workflow: str, claims: Claims) -> None:
        self._workflow = workflow
        self._claims = claims
        self._checkpoints_dir = checkpoints_dir(project_dir)
        self._batch = Batch(project_dir, workflow)

    def db_path(self, item_id: str) -> Path:
        return checkpoint.path_in(self._checkpoints_dir, self._workflow, item_id)

    def can_keep(self, item_id: str) -> bool:
        """Whether a checkpoint can be written from here."""
        return checkpoint.can_keep(self.db_path(item_id))

    def publish(self, end: ItemEnd) -> ItemEnd:
        """Put a finished item's documents into place. What cannot be written makes it fail."""
        try:
            for path in end.outputs:
                Path(f"{path}.tmp").replace(path)
        except OSError as error:
            return without_documents(end, f"cannot write {error.filename2 or error.filename}: {error.strerror}")
        return end

    def drop_unfinished_documents(self, item_id: str) -> None:
        for path in checkpoint.kept_outputs(self.db_path(item_id)):
            with suppress(OSError):
                Path(f"{path}.tmp").unlink(missing_ok=True)

    def note_done(self, item: Item, outcome: Outcome, run_id: str) -> None:
        """In this order: a kill or a full disk in between leaves a finished checkpoint. It resumes without a node."""
        self._batch.mark_done(item.id, Done(input_hash(item.input), outcome, run_id))
        self.remove_checkpoint(item.id)

    def remove_checkpoint(self, item_id: str) -> None:
        checkpoint.remove(self.db_path(item_id))

    def forget_done(self, item_ids: Iterable[str]) -> None:
        """Nothing is left to resume: the same command starts the whole batch over."""
        for item_id in item_ids:
            with suppress(OSError):
                self._batch.forget(item_id)

    def give_back(self, item_id: str) -> None:
        """Another run may have the item from here on."""
        self._claims.give_back(claim_name(self._workflow, item_id))
