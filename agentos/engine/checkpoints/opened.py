"""What every store does with an item's checkpoint that is open: where the standing moves, and what a resume reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentos.engine.checkpoints.protocol import CheckpointUnusable, CheckpointUnwritable, Standing
from agentos.errors import CannotContinueError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from agentos.engine.checkpoints.item_saver import ItemProgress
    from agentos.keys.redaction import Masking


class OpenedCheckpoint(ABC):
    """An `ItemCheckpoint` as far as it does not depend on what it is kept in."""

    standing: Standing

    def __init__(self, item_id: str) -> None:
        from agentos.keys.redaction import MarkRedactor  # noqa: PLC0415  Who only peeks masks nothing.

        self._item_id = item_id
        self.redactor: Masking = MarkRedactor()
        self.has_steps = False

    @property
    @abstractmethod
    def saver(self) -> ItemProgress: ...

    @abstractmethod
    def _stand(self, after: Callable[[Standing], Standing], *, is_synced: bool = False) -> None:
        """Move the standing in a commit of its own; `is_synced`: on the disk itself when this returns."""

    @property
    def config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self._item_id}}

    def read_saved_state(self) -> None:
        """Read what a resume would. Raises CheckpointUnusable when it is not what was saved."""
        try:
            self.has_steps = self.saver.get_tuple(self.config) is not None
        except CheckpointUnwritable:
            raise
        except CannotContinueError:
            # A class that the item's factory may still make. If it does not, the item's graph meets the same.
            self.has_steps = True
        except Exception as error:
            # The serializer's own errors, of many kinds, all mean that the bytes are not what it wrote.
            raise CheckpointUnusable("damaged", f"saved state cannot be read: {error}") from error

    def name_task(self, task_id: str, node: str) -> None:
        self.saver.running[task_id] = node

    def refuse_lost_subgraphs(self, task_id: str) -> None:
        self.saver.resumed.node_ends(task_id)

    def subgraph_goes_on(self, namespace: str) -> None:
        self.saver.resumed.goes_on(namespace)

    def begin(self, input_hash: str) -> None:
        self._stand(lambda _: Standing(input_hash=input_hash))

    def park(self, questions: list[Any], interrupt_ids: list[str] | None = None) -> None:
        self._stand(
            lambda standing: replace(
                standing, questions=questions, interrupt_ids=interrupt_ids, answer=None, edit=None
            ),
            is_synced=True,
        )

    def take_answer(self, answer: Any, edit: dict[str, Any] | None) -> None:
        self._stand(lambda standing: replace(standing, answer=answer, edit=edit), is_synced=True)

    @contextmanager
    def editing(self, *, question_stands: bool = True) -> Iterator[None]:
        self.saver.is_edited_by_hand = True
        self.saver.question_stands = question_stands
        try:
            yield
        finally:
            self.saver.is_edited_by_hand = False
