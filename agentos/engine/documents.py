"""Documents of items, from `outputs.write` in a node to the coordinator: who writes which, and where each waits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from agentos.engine.checkpoints.protocol import ItemCheckpoint
from agentos.errors import AgentosError


class WrittenByAnother(AgentosError):
    """Two items of a run write the same document: one would replace the other's."""


def staged_path(path: str, checkpoint_address: str) -> Path:
    """Where a document waits beside its place, under a name that belongs to one item of one run.

    An item's checkpoint is held by one run at a time. After a kill its next run uses the same name again, so that
    nothing stays behind.
    """
    mark = hashlib.sha256(os.fsencode(checkpoint_address)).hexdigest()[:12]
    return Path(f"{path}.{mark}.tmp")


class Writers:
    """In the coordinator: which item of the run writes which document."""

    def __init__(self) -> None:
        self._by_path: dict[str, str] = {}

    def wrote(self, item_id: str, paths: Iterable[str]) -> None:
        """In an earlier run of the batch."""
        self._by_path.update(dict.fromkeys(paths, item_id))

    def writer_of(self, path: str, asked_by: str) -> str:
        """The item that asked first. It stays the writer: its document may wait in a checkpoint."""
        return self._by_path.setdefault(path, asked_by)


class ItemDocuments:
    """In the worker: one item's documents. `writer_of` asks the coordinator which item writes a path."""

    def __init__(self, item_id: str, checkpoint: ItemCheckpoint, writer_of: Callable[[str], str]) -> None:
        self._item_id = item_id
        self._checkpoint = checkpoint
        self._writer_of = writer_of

    def keep(self, path: Path, content: bytes) -> None:
        """Until the item succeeds. Raises WrittenByAnother."""
        self._refuse_anothers(str(path))
        self._checkpoint.keep_output(path, content)

    def stage(self, checkpoint_address: str) -> list[str]:
        """Write each beside its place, on the disk itself, for the coordinator to put there. Returns the places."""
        paths = []
        for path, content in self._checkpoint.outputs():
            # A resumed item has not asked yet: its nodes wrote it in an earlier run.
            self._refuse_anothers(path)
            _write_synced(staged_path(path, checkpoint_address), content)
            paths.append(path)
        return paths

    def _refuse_anothers(self, path: str) -> None:
        writer = self._writer_of(path)
        if writer != self._item_id:
            raise WrittenByAnother(
                f"{path} is written by item {writer} of this run already; {self._item_id} needs a path of its own"
            )


def _write_synced(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
