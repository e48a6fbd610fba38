"""Three nodes in a row. `input["tasks"]` maps a node's name to what it should do, see `journal.TASKS`."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any, TypedDict

from journal import step
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    tasks: dict[str, str]
    trail: Annotated[list[str], add]
    outcome: str
    reason: str


def _node(name: str) -> Any:
    def run(state: State) -> State:
        step(name, state.get("tasks", {}))
        return {"trail": [name]}

    return run


NODES = ("n1", "n2", "n3")
graph = StateGraph(State)
for node in NODES:
    graph.add_node(node, _node(node))
for before, after in zip((START, *NODES), (*NODES, END), strict=True):
    graph.add_edge(before, after)
