"""A node that calls a graph by itself, where nobody sees it before. `SECOND` renames that graph's second node."""

from __future__ import annotations

import os
from typing import Any

from journal import step
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    tasks: dict[str, str]


def _node(name: str) -> Any:
    def run(state: State) -> dict[str, Any]:
        step(name, state["tasks"])
        return {}

    return run


def _inner() -> Any:
    second = os.environ.get("SECOND", "second")
    graph = StateGraph(State)
    graph.add_node("first", _node("first"))
    graph.add_node(second, _node("second"))
    graph.add_edge(START, "first")
    graph.add_edge("first", second)
    graph.add_edge(second, END)
    return graph.compile()


def call(state: State) -> dict[str, Any]:
    return dict(_inner().invoke(state))


graph = StateGraph(State)
graph.add_node("call", call)
graph.add_node("after", _node("after"))
graph.add_edge(START, "call")
graph.add_edge("call", "after")
graph.add_edge("after", END)
