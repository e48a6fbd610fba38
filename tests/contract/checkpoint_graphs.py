"""Graphs for the suite of checkpoint stores, and a way to run one as a worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from agentos.engine.checkpoints.opening import open_item
from agentos.engine.checkpoints.protocol import CheckpointStore, ItemRef
from agentos.engine.graph import Continuation, Execution

REF = ItemRef("flow", "42")
Deed = Callable[[], Any]


class State(TypedDict, total=False):
    text: str
    trail: Annotated[list[str], add]


@dataclass
class Story:
    """Graphs whose nodes note that they ran, and do what a test wants them to."""

    deeds: Mapping[str, Deed] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def node(self, name: str) -> Any:
        def run(_state: State) -> State:
            return {"trail": [name, *self._do(name)]}

        return run

    def async_node(self, name: str) -> Any:
        async def run(_state: State) -> State:
            await asyncio.sleep(0)
            return {"trail": [name, *self._do(name)]}

        return run

    def _do(self, name: str) -> list[str]:
        self.ran.append(name)
        said = self.deeds[name]() if name in self.deeds else None
        return [said] if said else []

    def chain(self, *names: str, make: Callable[[str], Any] | None = None) -> Any:
        graph = StateGraph(State)
        for name in names:
            graph.add_node(name, (make or self.node)(name))
        for before, after in zip((START, *names), (*names, END), strict=True):
            graph.add_edge(before, after)
        return graph

    def side_by_side(self) -> Any:
        graph = StateGraph(State)
        for name in ("first", "left", "right"):
            graph.add_node(name, self.node(name))
        graph.add_edge(START, "first")
        for name in ("left", "right"):
            graph.add_edge("first", name)
        return graph

    def nested(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("before", self.node("before"))
        graph.add_node("inside", self.chain("one", "two").compile())
        graph.add_node("after", self.node("after"))
        for start, end in ((START, "before"), ("before", "inside"), ("inside", "after")):
            graph.add_edge(start, end)
        return graph

    def sent(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("fan_out", self.node("fan_out"))
        graph.add_node("work", self.node("work"))
        graph.add_node("join", self.node("join"))
        graph.add_edge(START, "fan_out")
        graph.add_conditional_edges("fan_out", lambda _state: [Send("work", {}), Send("work", {})], ["work"])
        graph.add_edge("work", "join")
        return graph


@dataclass(frozen=True)
class Ended:
    """How a run of an item ended."""

    trail: list[str]
    questions: list[Any] | None


def run(store: CheckpointStore, graph: Any, item_input: dict[str, Any] | None = None, *, park: bool = True) -> Ended:
    """As a worker does: open, run, park if it asks. What a node raises comes out."""
    opened = open_item(store, REF, item_input or {"text": "x"})
    with closing(opened.checkpoint) as checkpoint:
        execution = Execution(graph.compile(), checkpoint)
        execution.run(opened.initial_state, lambda _node: None, Continuation.of(checkpoint.standing))
        if execution.is_parked and park:
            checkpoint.park(execution.questions, execution.interrupt_ids)
        questions = execution.questions if execution.is_parked else None
        return Ended(execution.final_state.get("trail", []), questions)


def ask(*questions: str) -> Deed:
    return lambda: " ".join(str(interrupt(question)) for question in questions)


def fail() -> None:
    raise RuntimeError("sour")
