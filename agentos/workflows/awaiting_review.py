"""Items that wait for a person: which they are, what they ask, and how an answer reaches them."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.engine.checkpoints import sqlite as checkpoint
from agentos.engine.checkpoints.sqlite import ItemDatabase, synced
from agentos.engine.claims import Claims, claim_name
from agentos.errors import AgentosError
from agentos.paths import checkpoints_dir
from agentos.workflows.registry import label_of

_BETWEEN = "_workflow_"
_CLAIM_PATIENCE_SECONDS = 3.0


class NotAnswerable(AgentosError):
    """The item cannot take an answer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An item parked at its checkpoint."""

    workflow: str
    item_id: str
    db_path: Path
    questions: tuple[Any, ...]
    answer: Any | None = None
    """Given already; the next run goes on with it."""

    @property
    def label(self) -> str:
        return label_of(self.workflow, self.item_id)

    @property
    def question(self) -> dict[str, Any]:
        """What the item asks first, as plain data."""
        first = self.questions[0] if self.questions else {}
        return first if isinstance(first, dict) else {"question": first}


def waiting_items(project_dir: Path) -> list[Waiting]:
    """The project's parked items, answered ones too, in order of their labels. Touches nothing."""
    found = []
    for db_path in sorted(checkpoints_dir(project_dir).glob(f"*{_BETWEEN}*.db")):
        workflow, _, item_id = db_path.stem.partition(_BETWEEN)
        seen = checkpoint.peek(db_path)
        if seen is not None and seen.questions is not None:
            found.append(
                Waiting(
                    workflow=workflow,
                    item_id=item_id,
                    db_path=db_path,
                    questions=tuple(seen.questions),
                    answer=seen.answer,
                )
            )
    return sorted(found, key=lambda item: item.label)


def give_answer(project_dir: Path, item: Waiting, answer: Any) -> None:
    """Store a person's answer; on disk when this returns. A later answer replaces it until the item goes on.

    Raises NotAnswerable when a run has the item, or when it has gone on since it was looked at.
    """
    with Claims(checkpoints_dir(project_dir) / "claims.lock") as claims:
        if not _claimed(claims, claim_name(item.workflow, item.item_id)):
            raise NotAnswerable(f"A run is working on {item.label} now: answer when it has parked again or ended.")
        if not item.db_path.exists():
            raise NotAnswerable(f"{item.label} has gone on and ended since you looked at it.")
        database = ItemDatabase.open(item.db_path)
        with closing(database.connection), synced(database.connection):
            if database.questions() != list(item.questions):
                raise NotAnswerable(f"{item.label} has gone on since you looked at it: look again before you answer.")
            database.put_answer(answer)


def _claimed(claims: Claims, name: str) -> bool:
    """A worker that only looks whether an answer has come holds its item for a moment: wait for it."""
    deadline = time.monotonic() + _CLAIM_PATIENCE_SECONDS
    while not claims.take(name):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
