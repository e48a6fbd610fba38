"""LangGraph's SQLite saver over one item's connection. Each commit also says how far the item is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.constants import START

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
        is_nested = bool(config["configurable"].get("checkpoint_ns"))
        # A graph that is no StateGraph has no first step of its own: its nodes begin with step 0.
        is_of_nodes = not is_nested and (metadata.get("step", 0) > 0 or bool(self.running))

        def after(standing: Standing) -> Standing:
            if self.is_edited_by_hand:
                # The question of an edited state has another id.
                ids: list[str] | None = None if standing.interrupt_ids else []
                return replace(standing, edit=None, interrupt_ids=ids, steps=standing.steps + 1)
            # Whatever it asked a person, it has moved on.
            standing = replace(
                standing, questions=None, interrupt_ids=None, answer=None, edit=None, steps=standing.steps + 1
            )
            if not is_of_nodes:
                return standing
            last = next(reversed(self.running.values()), standing.resumes_after)
            return replace(standing, resumes_after=last, is_untouched=False)

        with self._item.moving(after, is_synced=True):
            saved = super().put(config, checkpoint, metadata, new_versions)
        if not is_nested:
            self.running.clear()
        return saved

    # LangGraph hands over a task's path only where it sees a parameter of that name.
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A finished task of an unfinished step: safe from a kill, synced with its step."""
        channels = {channel for channel, _ in writes}
        is_node = task_path.rpartition(", ")[2] != START

        def after(standing: Standing) -> Standing:
            if not is_node or channels <= {ERROR}:
                return standing
            standing = replace(standing, is_untouched=False)
            if INTERRUPT in channels and standing.answer is not None:
                # It has used the answer and asks something else. LangGraph would answer that the same way.
                return _asking_again(standing, writes)
            if channels & {ERROR, INTERRUPT}:
                return standing
            return replace(standing, resumes_after=self.running.get(task_id, standing.resumes_after))

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


def _asking_again(standing: Standing, writes: Any) -> Standing:
    """A task that was answered asks something else; others may still have their answers."""
    asked = {each.id: each.value for channel, interrupts in writes if channel == INTERRUPT for each in interrupts}
    known = standing.interrupt_ids or []
    if len(known) < 2:
        return replace(standing, questions=list(asked.values()), interrupt_ids=list(asked), answer=None)
    questions = [asked.get(each, question) for each, question in zip(known, standing.questions or (), strict=True)]
    left = {each: answer for each, answer in (standing.answer or {}).items() if each not in asked}
    return replace(standing, questions=questions, answer=left or None)
