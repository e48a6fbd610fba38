"""What LangGraph's savers of one item share: each commit says how far the item is, and async nodes use them too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from agentos.engine.checkpoints import progress
from agentos.engine.checkpoints.lost_nodes import ResumedSubgraphs
from agentos.engine.checkpoints.protocol import Standing


class ItemProgress(BaseCheckpointSaver[str]):
    """Async nodes use the same, blocking, methods: one item has its process to itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.running: dict[str, str] = {}
        """Nodes of the step under way, by task id."""
        self.is_edited_by_hand = False
        """The next step is a person's edit of the state."""
        self.question_stands = True
        """What was asked before the edit still is."""
        self.resumed = ResumedSubgraphs()

    def step_ends(self, config: Any, metadata: Any) -> Callable[[Standing], Standing]:
        """How the standing moves with the commit of a finished step."""
        nested = progress.is_nested(config)
        self.resumed.moved(config)
        self.resumed.step_ends(config)
        return lambda standing: progress.after_step(
            standing,
            metadata,
            self.running.values(),
            nested=nested,
            is_edited_by_hand=self.is_edited_by_hand,
            question_stands=self.question_stands,
        )

    def step_is_kept(self, config: Any) -> None:
        if not progress.is_nested(config):
            self.running.clear()

    def task_ends(self, config: Any, writes: Any, task_id: str, task_path: str) -> Callable[[Standing], Standing]:
        """How the standing moves with the commit of a finished task of an unfinished step."""
        self.resumed.moved(config)
        self.resumed.node_ends(task_id, writes)
        return lambda standing: progress.after_writes(standing, writes, task_path, self.running.get(task_id))

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for entry in self.list(config, **kwargs):
            yield entry

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return self.put(*args, **kwargs)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.put_writes(config, writes, task_id, task_path)
