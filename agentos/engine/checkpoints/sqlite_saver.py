"""LangGraph's SQLite saver over one item's connection. Each commit also says how far the item is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.sqlite import SqliteSaver

from agentos.engine.checkpoints import progress
from agentos.engine.checkpoints.protocol import Standing
from agentos.engine.checkpoints.serializer import ItemSerializer
from agentos.engine.checkpoints.sqlite import unwritable_is_a_fault

if TYPE_CHECKING:
    from agentos.engine.checkpoints.sqlite import SqliteCheckpoint


class ItemSaver(SqliteSaver):
    """A failed write is a fault of the run.

    Async nodes use the same, blocking, methods: one item has its process to itself.
    """

    def __init__(self, item: SqliteCheckpoint) -> None:
        super().__init__(item.connection, serde=ItemSerializer(lambda data: item.redactor.redact(data)))
        self._item = item
        self.running: dict[str, str] = {}
        """Nodes of the step under way, by task id."""
        self.is_edited_by_hand = False
        """The next step is a person's edit of the state: what was asked still is."""

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
        nested = progress.is_nested(config)

        def after(standing: Standing) -> Standing:
            return progress.after_step(
                standing,
                metadata,
                self.running.values(),
                nested=nested,
                is_edited_by_hand=self.is_edited_by_hand,
            )

        with self._item.moving(after, is_synced=True):
            saved = super().put(config, checkpoint, metadata, new_versions)
        if not nested:
            self.running.clear()
        return saved

    # LangGraph hands over a task's path only where it sees a parameter of that name.
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A finished task of an unfinished step: safe from a kill, synced with its step."""

        def after(standing: Standing) -> Standing:
            return progress.after_writes(standing, writes, task_path, self.running.get(task_id))

        with self._item.moving(after):
            super().put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for entry in self.list(config, **kwargs):
            yield entry

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return self.put(*args, **kwargs)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.put_writes(config, writes, task_id, task_path)
