"""What the engine does with an item's files: documents, checkpoint, the note that it is done, its claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from agentos.engine.checkpoints import access_of, store_for
from agentos.engine.checkpoints.access import StoreAccess
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import Claims, claim_name
from agentos.engine.documents import note_written, staged_path
from agentos.engine.done_notes import Done, notes_of
from agentos.engine.item_end import ItemEnd, without_documents
from agentos.engine.plan import Item, item_hash
from agentos.outcomes import Outcome
from agentos.outputs import UnusableTarget, refuse_special


class ItemStore:
    """In the coordinator: the files of one workflow's items in one project, while a run holds their claims."""

    def __init__(self, project_dir: Path, workflow: str, claims: Claims) -> None:
        self._project_dir = project_dir
        self._workflow = workflow
        self._claims = claims
        self._checkpoints = store_for(project_dir)
        self._done_notes = notes_of(project_dir, workflow)

    def checkpoint_address(self, item_id: str) -> str:
        """For the item's worker."""
        return self._checkpoints.address(self._ref(item_id))

    def access(self, item_id: str) -> StoreAccess:
        """For the item's next worker: with a fence that no earlier one has. Raises FenceRefused, OSError."""
        fence = self._claims.next_fence(claim_name(self._workflow, item_id))
        return replace(self._access, fence=fence)

    @cached_property
    def _access(self) -> StoreAccess:
        return access_of(self._project_dir)

    def has_checkpoint(self, item_id: str) -> bool:
        return self._checkpoints.exists(self._ref(item_id))

    def can_keep(self, item_id: str) -> bool:
        """Whether a checkpoint can be written from here."""
        return self._checkpoints.can_keep(self._ref(item_id))

    def publish(self, item_id: str, end: ItemEnd) -> ItemEnd:
        """Put a finished item's documents into place. What cannot be written makes it fail."""
        try:
            note_written(self._project_dir, item_id, end.outputs)
            for path in end.outputs:
                refuse_special(Path(path))
                self._staged(item_id, path).replace(path)
        except (UnusableTarget, ValueError) as error:
            # The latter for a path that no file can have: a node that found its worker's socket may name anything.
            return without_documents(end, str(error))
        except OSError as error:
            return without_documents(end, f"cannot write {error.filename2 or error.filename}: {error.strerror}")
        return end

    def drop_unfinished_documents(self, item_id: str) -> None:
        for path in self._checkpoints.output_paths(self._ref(item_id)):
            with suppress(OSError):
                self._staged(item_id, path).unlink(missing_ok=True)

    def note_done(self, item: Item, outcome: Outcome, run_id: str, documents: Sequence[str] = ()) -> None:
        """Before its checkpoint is removed: a finished one resumes without a node, whatever happens in between."""
        self._done_notes.mark_done(item.id, Done(item_hash(item), outcome, run_id, tuple(documents)))

    def remove_checkpoint(self, item_id: str) -> None:
        self._checkpoints.remove(self._ref(item_id))

    def forget_done(self, item_ids: Collection[str], run_id: str, batch: Collection[str] = ()) -> None:
        """Nothing is left to resume: the same command starts over.

        Some items of a batch stay done as long as others of it are noted as done: the batch goes on.
        """
        with suppress(OSError):
            if any(self._done_notes.is_noted(item_id) for item_id in set(batch) - set(item_ids)):
                return
            self._done_notes.forget_all(item_ids, run_id)

    def give_back(self, item_id: str) -> None:
        """Another run may have the item from here on."""
        self._claims.give_back(claim_name(self._workflow, item_id))

    def take_back(self, item_id: str) -> bool:
        """Have the item again. False: another run was faster."""
        return self._claims.take(claim_name(self._workflow, item_id))

    def _staged(self, item_id: str, path: str) -> Path:
        return staged_path(path, self.checkpoint_address(item_id))

    def _ref(self, item_id: str) -> ItemRef:
        return ItemRef(self._workflow, item_id)
