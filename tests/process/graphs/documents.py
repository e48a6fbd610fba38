"""Writes two documents: one in its first node, one in its last."""

from __future__ import annotations

import os
from typing import TypedDict

from journal import step
from langgraph.graph import END, START, StateGraph

from agentos import outputs


class State(TypedDict, total=False):
    tasks: dict[str, str]
    outcome: str


def write_first(state: State) -> State:
    step("write_first", state.get("tasks", {}))
    outputs.write(f"docs/{os.environ['AGENTOS_ITEM_ID']}-first.md", "# First\n")
    return {}


def middle(state: State) -> State:
    step("middle", state.get("tasks", {}))
    return {}


def write_last(state: State) -> State:
    outputs.write(f"docs/{os.environ['AGENTOS_ITEM_ID']}-last.bin", b"\x00last")
    step("write_last", state.get("tasks", {}))
    return {}


graph = StateGraph(State)
for node in (write_first, middle, write_last):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "write_first")
graph.add_edge("write_first", "middle")
graph.add_edge("middle", "write_last")
graph.add_edge("write_last", END)
