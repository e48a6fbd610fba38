"""LangGraph's PostgreSQL saver for one item. Each commit also says how far the item is, and carries its fence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple, get_serializable_checkpoint_metadata
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agentos.engine.checkpoints.item_saver import ItemProgress
from agentos.engine.checkpoints.serializer import ItemSerializer
from agentos.keys.redaction import redact_record

if TYPE_CHECKING:
    from psycopg import Cursor

    from agentos.engine.checkpoints.postgres import PostgresCheckpoint


@dataclass(frozen=True, slots=True)
class _Whole:
    """A value of a state on its way to the serializer.

    LangGraph would put numbers and texts into a JSON column past it: keys unmasked, enumerations as plain texts, and
    texts with a NUL not at all.
    """

    value: Any


class _WholeSerializer(ItemSerializer):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return super().dumps_typed(obj.value if isinstance(obj, _Whole) else obj)


class PostgresItemSaver(ItemProgress, PostgresSaver):
    """Knows the item by the number of its row; a graph knows it by its id."""

    def __init__(self, item: PostgresCheckpoint) -> None:
        serializer = _WholeSerializer(lambda data: item.redactor.redact(data), lambda: item.standing.resumes_after)
        super().__init__(None, serde=serializer)
        self._item = item
        self._current: Cursor[Any] | None = None

    def setup(self) -> None:
        """The session has made the tables."""

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Cursor[Any]]:
        """The one of the transaction or the reading under way: see `_with`."""
        assert self._current is not None
        yield self._current

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        own = self._inside(config)
        found = self._item.read(lambda cursor: self._with(cursor, lambda: PostgresSaver.get_tuple(self, own)))
        self.resumed.read(config, found)
        return None if found is None else self._outside(found)

    def list(self, config: Any, **kwargs: Any) -> Iterator[CheckpointTuple]:
        own: Any = self._inside(config) if config else {"configurable": {"thread_id": self._item.thread_id}}
        before = kwargs.pop("before", None)
        wanted = {**kwargs, "before": self._inside(before) if before else None}

        def read() -> Sequence[CheckpointTuple]:
            return [*PostgresSaver.list(self, own, **wanted)]

        yield from map(self._outside, self._item.read(lambda cursor: self._with(cursor, read)))

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        own = self._inside(config)

        def read() -> Mapping[str, Any]:
            return PostgresSaver.get_delta_channel_history(self, config=own, channels=channels)

        return self._item.read(lambda cursor: self._with(cursor, read))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """A finished step: on the server's disk before the next one starts."""
        after = self.step_ends(config, metadata)
        shown = redact_record(get_serializable_checkpoint_metadata(config, metadata), self._item.redactor)
        values = {
            name: value if isinstance(value, _DeltaSnapshot) else _Whole(value)
            for name, value in checkpoint["channel_values"].items()
        }
        whole = {**checkpoint, "channel_values": values}
        own = self._inside(config)

        self._item.move(after, lambda cursor: self._with(cursor, lambda: self._put(own, whole, shown, new_versions)))
        self.step_is_kept(config)
        return _of_thread(config, config["configurable"]["thread_id"], checkpoint["id"])

    def _put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return PostgresSaver.put(self, config, checkpoint, metadata, new_versions)

    # LangGraph hands over a task's path only where it sees a parameter of that name.
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A finished task of an unfinished step."""
        after = self.task_ends(config, writes, task_id, task_path)
        own = self._inside(config)

        def put() -> None:
            PostgresSaver.put_writes(self, own, writes, task_id, task_path)

        self._item.move(after, lambda cursor: self._with(cursor, put))

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        return self.get_delta_channel_history(config=config, channels=channels)

    def _with(self, cursor: Cursor[Any], work: Callable[[], Any]) -> Any:
        before, self._current = self._current, cursor
        try:
            return work()
        finally:
            self._current = before

    def _inside(self, config: Any) -> Any:
        """A config without what only the graph put there: LangGraph's saver would keep it as metadata, unmasked."""
        known = config["configurable"]
        return _of_thread(config, self._item.thread_id, known.get("checkpoint_id"))

    def _outside(self, found: CheckpointTuple) -> CheckpointTuple:
        own = self._item.config["configurable"]["thread_id"]
        parent = found.parent_config
        return found._replace(
            config=_of_thread(found.config, own, found.config["configurable"]["checkpoint_id"]),
            parent_config=parent and _of_thread(parent, own, parent["configurable"]["checkpoint_id"]),
        )


def _of_thread(config: Any, thread_id: str, checkpoint_id: str | None) -> Any:
    configurable = {"thread_id": thread_id, "checkpoint_ns": config["configurable"].get("checkpoint_ns", "")}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}}
