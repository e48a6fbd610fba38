"""LangGraph's SQLite saver over one item's connection. Each commit also says how far the item is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from agentos.engine.checkpoints.item_saver import ItemProgress
from agentos.engine.checkpoints.serializer import ItemSerializer
from agentos.engine.checkpoints.sqlite_checkpoint import unwritable_is_a_fault

if TYPE_CHECKING:
    from agentos.engine.checkpoints.sqlite_checkpoint import SqliteCheckpoint


class ItemSaver(ItemProgress, SqliteSaver):
    """A failed write is a fault of the run."""

    def __init__(self, item: SqliteCheckpoint) -> None:
        serializer = ItemSerializer(lambda data: item.redactor.redact(data), lambda: item.standing.resumes_after)
        super().__init__(item.connection, serde=serializer)
        self._item = item

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        self.resumed.read(config, found)
        return found

    def setup(self) -> None:
        with unwritable_is_a_fault():
            super().setup()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """LangGraph's transaction, with the item's standing in it: both are committed, or neither."""
        with super().cursor(transaction) as cursor:
            try:
                yield cursor
                if transaction:
                    self._item.note_standing(cursor)
            except BaseException:
                # What is left of the transaction would be committed.
                self.conn.rollback()
                raise

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """A finished step: on the disk before the next one starts."""
        after = self.step_ends(config, metadata)
        with self._item.moving(after, is_synced=True):
            saved = super().put(config, checkpoint, metadata, new_versions)
        self.step_is_kept(config)
        return saved

    # LangGraph hands over a task's path only where it sees a parameter of that name.
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A finished task of an unfinished step: safe from a kill, synced with its step."""
        after = self.task_ends(config, writes, task_id, task_path)
        with self._item.moving(after):
            super().put_writes(config, writes, task_id, task_path)
