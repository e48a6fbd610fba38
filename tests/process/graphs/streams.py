"""A graph over workstreams: each one's text says what its nodes do, as `NODE: TASK` lines, see `journal.TASKS`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypedDict

from journal import note, step
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    slug: str
    text: str
    branch: str
    base: str
    worktree: str
    outcome: str
    reason: str


def _tasks(text: str) -> dict[str, str]:
    lines = [line.partition(": ") for line in text.splitlines()]
    return {node: task for node, colon, task in lines if colon}


def _node(name: str) -> Any:
    def run(state: State) -> State:
        note(f"pid {state['slug']} {os.getpid()}")
        tasks = _tasks(state["text"])
        step(name, tasks)
        if name == "n3":
            Path(state["worktree"], "done.txt").write_text(f"{state['branch']}\n")
            return {"outcome": tasks.get("outcome", "")}
        return {}

    return run


graph = StateGraph(State)
for number in (1, 2, 3):
    graph.add_node(f"n{number}", _node(f"n{number}"))
graph.add_edge(START, "n1")
graph.add_edge("n1", "n2")
graph.add_edge("n2", "n3")
graph.add_edge("n3", END)
