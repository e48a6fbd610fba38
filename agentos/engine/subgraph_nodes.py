"""Nodes inside subgraphs: found, named by their way from the top (`LLD.N1_design`), heard of before they run.

LangGraph streams them only while it runs every node in a thread, where no signal reaches it. Callbacks come in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.constants import START
from langgraph.pregel import Pregel


@dataclass(frozen=True, slots=True)
class NestedTask:
    """A node of a subgraph that is about to run."""

    task_id: str
    name: str
    step: tuple[str, int]
    """Tasks of the same step are saved together."""


def containers(graph: Pregel[Any, Any, Any, Any], above: str = "") -> frozenset[str]:
    """Names of the nodes that are subgraphs: they do nothing of their own."""
    found: set[str] = set()
    for name, node in graph.nodes.items():
        if isinstance(node.bound, Pregel):
            found |= {f"{above}{name}", *containers(node.bound, f"{above}{name}.")}
    return frozenset(found)


class NestedNodes(BaseCallbackHandler):
    """Tells of nodes below the top. `started` may raise: the node then does not run."""

    raise_error = True
    run_inline = True

    def __init__(
        self, known: frozenset[str], started: Callable[[NestedTask], None], ended: Callable[[NestedTask], None]
    ) -> None:
        self._containers = known
        self._started = started
        self._ended = ended
        self._running: dict[UUID, NestedTask] = {}

    def on_chain_start(self, *_args: Any, run_id: UUID, **context: Any) -> None:
        task = _nested_task(context.get("tags") or (), context.get("metadata") or {})
        if task is not None and task.name not in self._containers:
            self._started(task)
            self._running[run_id] = task

    def on_chain_end(self, *_args: Any, run_id: UUID, **_context: Any) -> None:
        task = self._running.pop(run_id, None)
        if task is not None:
            self._ended(task)


class SubgraphSteps(BaseCallbackHandler):
    """Tells of each graph below the top, by LangGraph's name for it, that a node of it is about to run."""

    run_inline = True

    def __init__(self, goes_on: Callable[[str], None]) -> None:
        self._goes_on = goes_on

    def on_chain_start(self, *_args: Any, **context: Any) -> None:
        task = _nested_task(context.get("tags") or (), context.get("metadata") or {})
        if task is not None:
            self._goes_on(task.step[0])


def _nested_task(tags: Any, metadata: dict[str, Any]) -> NestedTask | None:
    """None for nodes at the top, for parts of nodes, and for LangGraph's own first one."""
    way = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
    if len(way) < 2 or metadata["langgraph_node"] == START or not any(tag.startswith("graph:step:") for tag in tags):
        return None
    name = ".".join(part.partition(":")[0] for part in way if ":" in part)
    step = ("|".join(way[:-1]), int(metadata["langgraph_step"]))
    return NestedTask(way[-1].partition(":")[2], name, step)
