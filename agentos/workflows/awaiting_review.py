"""Items that wait for a person: which they are, what they ask, and how an answer reaches them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.clock import utc_now
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, NotAsking
from agentos.engine.claims import Claims, claim_name, claims_of
from agentos.errors import AgentosError
from agentos.settings import Settings
from agentos.text.words import listed, one_line
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.approving import Given, StandingDocument, approve
from agentos.workflows.registry import WORKFLOWS, label_of

CLAIM_PATIENCE_SECONDS = 3.0


class NotAnswerable(AgentosError):
    """The item cannot take an answer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An item parked at its checkpoint."""

    workflow: str
    item_id: str
    questions: tuple[Any, ...]
    interrupt_ids: tuple[str, ...] = ()
    """LangGraph's id of each question; none when the graph stops by itself before or after a node."""
    answer: Any | None = None
    """Given already; the next run continues with it. With several questions, answers by the question's id."""
    edit: dict[str, Any] | None = None
    """What the next run changes in its state first."""

    @property
    def label(self) -> str:
        return label_of(self.workflow, self.item_id)

    @property
    def question(self) -> dict[str, Any]:
        """What the item asks first, as plain data."""
        first = self.questions[0] if self.questions else {}
        return first if isinstance(first, dict) else {"question": first}

    @property
    def is_gate(self) -> bool:
        """Whether it is a gate of ours, and no question of a user's graph."""
        return "gate" in self.question and self.workflow in WORKFLOWS

    @property
    def takes_approval(self) -> bool:
        """A gate, or a graph that stops by itself before or after a node and asks nothing."""
        return self.is_gate or ("stopped" in self.question and not self.interrupt_ids)

    @property
    def words(self) -> str:
        """What it wants of a person, in one line."""
        question = self.question
        if self.is_gate:
            return (
                f"waits for you at its {one_line(str(question['gate']), 20)} gate, round {question.get('round', 1)}"
            )
        if self.takes_approval:
            return f"stopped before {listed([str(node) for node in question.get('next', ())])} and waits for you"
        first = question.get("question", question)
        more = f" (and {len(self.questions) - 1} more)" if len(self.questions) > 1 else ""
        text = first if isinstance(first, str) else json.dumps(first, default=str, ensure_ascii=False)
        return f"asks you: {one_line(text, 200)}{more}"

    @property
    def is_answered(self) -> bool:
        """Whether the next run continues it: with a person's answers, or with the state that they edited."""
        if self.answer is None:
            return self.edit is not None
        return len(self.questions) < 2 or all(each in self.answer for each in self.interrupt_ids)

    @property
    def open_question(self) -> int:
        """The number of the first question that has no answer yet; the first when all have."""
        answered = self.answer if len(self.questions) > 1 and isinstance(self.answer, dict) else {}
        numbers = (n for n, each in enumerate(self.interrupt_ids, start=1) if each not in answered)
        return next(numbers, 1)


def waiting_items(project_dir: Path) -> list[Waiting]:
    """The project's parked items, answered ones too, in order of their labels. Touches nothing."""
    found = (waiting_item(project_dir, ref) for ref in store_for(project_dir).items())
    return sorted((item for item in found if item is not None), key=lambda item: item.label)


def waiting_item(project_dir: Path, ref: ItemRef) -> Waiting | None:
    """What an item asks; None when it asks nothing."""
    seen = store_for(project_dir).peek(ref)
    if seen is None or seen.questions is None:
        return None
    return Waiting(
        workflow=ref.workflow,
        item_id=ref.item_id,
        questions=tuple(seen.questions),
        interrupt_ids=tuple(seen.interrupt_ids or ()),
        answer=seen.answer,
        edit=seen.edit,
    )


def give_answer(project_dir: Path, item: Waiting, answer: Any, edit: dict[str, Any] | None = None) -> None:
    """Store a person's answer; on disk when this returns. A later answer replaces it until the item continues.

    Raises NotAnswerable when a run has the item, or when it has continued since it was looked at.
    """
    store, ref = store_for(project_dir), ItemRef(item.workflow, item.item_id)
    with claimed(project_dir, item.workflow, item.item_id):
        if not store.exists(ref):
            raise NotAnswerable(f"{item.label} has continued and ended since you looked at it.")
        try:
            store.answer(ref, item.questions, answer, edit)
        except NotAsking:
            raise NotAnswerable(
                f"{item.label} has continued since you looked at it: look again before you answer."
            ) from None


def approve_document(project_dir: Path, settings: Settings, document: StandingDocument) -> Given:
    """A person takes a document as it stands. Raises CheckFailed, or NotAnswerable when a run has the item."""
    workflow, item_id = document.workflow.name, document.item_id
    with claimed(project_dir, workflow, item_id):
        return approve(
            project_dir,
            settings,
            document,
            lambda text: check_document(workflow, text, item_id, project_dir),
            utc_now(),
        )


@contextmanager
def claimed(project_dir: Path, workflow: str, item_id: str) -> Iterator[None]:
    """Hold an item: no run has it meanwhile. Raises NotAnswerable when one does."""
    with claims_of(project_dir) as claims:
        if not _claimed(claims, claim_name(workflow, item_id)):
            label = label_of(workflow, item_id)
            raise NotAnswerable(f"A run is working on {label} now: answer when it has parked again or ended.")
        yield


def _claimed(claims: Claims, name: str) -> bool:
    """A worker that only looks whether an answer has come holds its item for a moment: wait for it."""
    deadline = time.monotonic() + CLAIM_PATIENCE_SECONDS
    while not claims.take(name):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
