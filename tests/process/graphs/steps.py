"""Nodes in a row. `input["tasks"]` maps a node's name to what it should do, see `journal.TASKS`."""

from __future__ import annotations

import os
from operator import add
from typing import Annotated, Any, TypedDict

from journal import note, step
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


def _tell_trail(state: State) -> State:
    note(f"{os.environ['AGENTOS_ITEM_ID']} trail {' '.join(state['trail'])}")
    return {}


def _chain(nodes: dict[str, Any]) -> Any:
    made = StateGraph(State)
    for name, run in nodes.items():
        made.add_node(name, run)
    for before, after in zip((START, *nodes), (*nodes, END), strict=True):
        made.add_edge(before, after)
    return made


graph = _chain({name: _node(name) for name in ("n1", "n2", "n3")})
long = _chain({**{f"n{number}": _node(f"n{number}") for number in range(1, 9)}, "tell": _tell_trail})
