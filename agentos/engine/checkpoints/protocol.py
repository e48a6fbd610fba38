"""What a checkpoint store does for the engine, whatever it keeps checkpoints in."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agentos.errors import AgentosError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agentos.keys.redaction import Masking


SET_ASIDE_FORMAT = "%Y%m%d-%H%M%S"


def aside_name(kind: str) -> str:
    """What is added to the name of a checkpoint that is set aside: why, when, and by which process."""
    return f"{kind}-{time.strftime(SET_ASIDE_FORMAT, time.gmtime())}-{os.getpid()}"


class CheckpointUnwritable(Exception):
    """The item's state cannot be saved: a fault of the run, not of the item."""


class StoreAway(CheckpointUnwritable, AgentosError, OSError):
    """What checkpoints are kept in does not answer now: nothing was lost, and the same may work later."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EIO, text)

    def __str__(self) -> str:
        return str(self.strerror)


class StoreRefuses(CheckpointUnwritable, AgentosError, OSError):
    """What checkpoints are kept in answers, and will not: a password, a right, room, or a program is missing."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)

    def __str__(self) -> str:
        return str(self.strerror)


class FenceRefused(AgentosError):
    """The item has passed to another worker or run, and this one may not write any more. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("another run or worker has taken this item over; nothing more of this one is kept")


class CheckpointUnusable(AgentosError):
    """There is a checkpoint and nothing can resume from it. `kind` is one word for what is wrong."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"checkpoint is {kind} ({reason})")
        self.kind = kind


class NotAsking(AgentosError):
    """The item does not ask, or no longer asks, what an answer is for."""


class ItemRef(NamedTuple):
    """Whose checkpoint it is, within a project."""

    workflow: str
    item_id: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an item is: the engine's own account of it, kept beside what LangGraph saves."""

    resumes_after: str | None = None
    """The last finished node; None when none has finished."""
    input_hash: str | None = None
    """Of its work: see `work_hash`."""
    questions: list[Any] | None = None
    """What the item asks a person, when it is parked."""
    interrupt_ids: list[str] | None = None
    """LangGraph's id of each question; empty when the graph stops by itself before or after a node."""
    answer: Any | None = None
    """A person's answer, if there is one already; with several questions, answers by the id of the question."""
    edit: dict[str, Any] | None = None
    """What a person wants changed in its state before it continues."""
    is_untouched: bool = True
    """No node has left anything but an error: whatever its input was, it is as good as new."""
    steps: int = 0
    """How many steps are on the disk itself. It only grows: a copy that knows of more is proof of a loss."""

    def asks_anew(self, before: Standing) -> bool:
        """Whether the item has come to a question, be it in the same words again: what was answered is used."""
        if self.questions is None:
            return False
        if self.questions != before.questions:
            return True
        if before.answer is None or self.answer is None:
            return before.answer is not None
        return len(self.interrupt_ids or ()) > 1 and len(self.answer) < len(before.answer)


class CheckpointStore(Protocol):
    """The checkpoints of one project's items. Whoever opens or changes one holds the item's claim."""

    def address(self, ref: ItemRef) -> str:
        """Where the item's worker finds it, also as AGENTOS_WORKFLOW_DB. Nothing need be there yet."""

    def items(self) -> list[ItemRef]:
        """Every item that has a checkpoint, in order."""

    def exists(self, ref: ItemRef) -> bool: ...

    def peek(self, ref: ItemRef) -> Standing | None:
        """How far the item is, None without a checkpoint. Starts nothing, writes nothing, needs no LangGraph.

        For showing: after a kill it may be one node behind, after a power cut any number. `open` knows.
        """

    def open(self, ref: ItemRef) -> ItemCheckpoint:
        """For the item's worker; makes it if need be.

        Raises CheckpointUnusable when it is damaged or of another version, CheckpointUnwritable when it cannot be
        written.
        """

    def answer(self, ref: ItemRef, questions: Sequence[Any], answer: Any, edit: dict[str, Any] | None = None) -> None:
        """Store a person's answer to these questions; durable when this returns. A later one replaces it.

        `edit` changes its state before it continues, with or without an answer. Raises NotAsking when the item does
        not ask exactly that, CheckpointUnusable as `open` does.
        """

    def remove(self, ref: ItemRef) -> None:
        """Nothing of it stays. Fine when there is nothing."""

    def keep_aside(self, ref: ItemRef, kind: str) -> str:
        """Move an unusable one out of the way for whoever wants to look. Returns its new name."""

    def can_keep(self, ref: ItemRef) -> bool:
        """Whether a checkpoint there could grow by a step: what it is kept in takes writes and has room."""

    def output_paths(self, ref: ItemRef) -> list[str]:
        """The documents that wait in it. Quick however big the state is: the coordinator asks."""


class ItemCheckpoint(Protocol):
    """One item's checkpoint, open in its worker."""

    redactor: Masking
    """Masks keys in all that is kept. Whoever knows keys replaces it."""
    has_steps: bool
    """Whether LangGraph had saved anything when it was opened. If not, it is as good as new."""

    @property
    def saver(self) -> BaseCheckpointSaver[str]:
        """For LangGraph. Each of its commits moves `standing` on in the same transaction."""

    @property
    def config(self) -> RunnableConfig:
        """What LangGraph knows the item as."""

    @property
    def standing(self) -> Standing:
        """How far the item is, exactly."""

    def begin(self, input_hash: str) -> None:
        """The item's first start, with this input."""

    def name_task(self, task_id: str, node: str) -> None:
        """LangGraph is about to run a node as this task; it tells its saver nothing but the task's id."""

    def refuse_lost_subgraphs(self, task_id: str) -> None:
        """Raises GraphChanged when a graph that the task has called was to go on and has not taken a step."""

    def subgraph_goes_on(self, namespace: str) -> None:
        """A node starts in the graph that LangGraph saves under this name."""

    def park(self, questions: list[Any], interrupt_ids: list[str] | None = None) -> None:
        """The item waits for a person's answer to these. Ends when it moves on."""

    def forget_used_answers(self) -> None:
        """Back to what LangGraph knew when the item asked: an answer that was tried is not given twice."""

    def editing(self, *, question_stands: bool = True) -> AbstractContextManager[None]:
        """Around the one commit that a person's edit of the state makes.

        The question stands unless its node has had answers before: it starts again, with its first question.
        """

    def get(self, name: str) -> str | None: ...

    def put(self, name: str, value: str) -> None:
        """Keep a small fact with the item."""

    def keep_output(self, path: Path, content: bytes) -> None:
        """Remember a document until the item succeeds. A resumed item still has it."""

    def outputs(self) -> Iterable[tuple[str, bytes]]:
        """The documents kept, by path."""

    def close(self) -> None:
        """All of it is in one place from here on: what is kept beside it while it is open is folded in."""
