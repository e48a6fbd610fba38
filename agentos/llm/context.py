"""Which workflow, item and node a model call belongs to. The worker sets it; recordings are named after it."""

from __future__ import annotations

import threading
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where one call happens. The round counts the calls of a node, from 1."""

    workflow: str
    item: str
    node: str
    round: int


_Node = tuple[str, str, str]

_node: ContextVar[_Node] = ContextVar("agentos_llm_node", default=("adhoc", "adhoc", "call"))
_rounds: Counter[_Node] = Counter()
_rounds_lock = threading.Lock()


def set_call_context(*, workflow: str, item: str, node: str, calls_before: int | None = None) -> None:
    """Say whose calls come next in this context (thread or task).

    Calls of a node are counted over all its visits in this process. A worker that resumes an item passes
    `calls_before`, the number of calls the node made before, so that the count continues.
    """
    _node.set((workflow, item, node))
    if calls_before is not None:
        with _rounds_lock:
            _rounds[workflow, item, node] = calls_before


def next_call_place() -> CallPlace:
    """The place of the call that starts now; counts it."""
    workflow, item, node = _node.get()
    with _rounds_lock:
        _rounds[workflow, item, node] += 1
        number = _rounds[workflow, item, node]
    return CallPlace(workflow=workflow, item=item, node=node, round=number)


def calls_made(*, workflow: str, item: str) -> dict[str, int]:
    """How many calls each node of the item has made so far: what `calls_before` wants to know after a resume."""
    with _rounds_lock:
        return {node: count for (of, whose, node), count in _rounds.items() if (of, whose) == (workflow, item)}
