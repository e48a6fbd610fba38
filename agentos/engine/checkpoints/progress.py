"""How an item's standing moves with each of LangGraph's commits. Pure: the same for every store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.constants import START

from agentos.engine.checkpoints.protocol import Standing


def is_nested(config: Any) -> bool:
    """Whether a commit is of a subgraph."""
    return bool(config["configurable"].get("checkpoint_ns"))


def after_step(
    standing: Standing,
    metadata: Any,
    running: Iterable[str],
    *,
    nested: bool,
    is_edited_by_hand: bool,
    question_stands: bool = True,
) -> Standing:
    """A step has finished, of the nodes that were `running`."""
    if is_edited_by_hand and not question_stands:
        return replace(standing, edit=None, answer=None, questions=None, interrupt_ids=None, steps=standing.steps + 1)
    if is_edited_by_hand:
        # The question of an edited state has another id.
        ids: list[str] | None = None if standing.interrupt_ids else []
        return replace(standing, edit=None, interrupt_ids=ids, steps=standing.steps + 1)
    nodes = list(running)
    # Whatever it asked a person, it has moved on.
    standing = replace(standing, questions=None, interrupt_ids=None, answer=None, edit=None, steps=standing.steps + 1)
    # A graph that is no StateGraph has no first step of its own: its nodes begin with step 0.
    if nested or not (metadata.get("step", 0) > 0 or nodes):
        return standing
    return replace(standing, resumes_after=nodes[-1] if nodes else standing.resumes_after, is_untouched=False)


def after_writes(standing: Standing, writes: Any, task_path: str, node: str | None) -> Standing:
    """A task of an unfinished step has finished, failed or asked; `node` is its name, if that is known."""
    channels = {channel for channel, _ in writes}
    if task_path.rpartition(", ")[2] == START or channels <= {ERROR}:
        return standing
    standing = replace(standing, is_untouched=False)
    if INTERRUPT in channels and standing.answer is not None:
        # It has used the answer and asks something else. LangGraph would answer that the same way.
        return _asking_again(standing, writes)
    if channels & {ERROR, INTERRUPT}:
        return standing
    return replace(standing, resumes_after=node or standing.resumes_after)


def _asking_again(standing: Standing, writes: Any) -> Standing:
    """A task that was answered asks something else; others may still have their answers."""
    asked = {each.id: each.value for channel, interrupts in writes if channel == INTERRUPT for each in interrupts}
    known = standing.interrupt_ids or []
    if len(known) < 2:
        return replace(standing, questions=list(asked.values()), interrupt_ids=list(asked), answer=None)
    questions = [asked.get(each, question) for each, question in zip(known, standing.questions or (), strict=True)]
    left = {each: answer for each, answer in (standing.answer or {}).items() if each not in asked}
    return replace(standing, questions=questions, answer=left or None)
