"""Graphs whose states hold what is of a class that no module has: made by a function, by a node, or with a lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any

from journal import note, step
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, PrivateAttr, create_model
from typing_extensions import TypedDict


def _made(extra: str = "") -> Any:
    class Plan(BaseModel):
        steps: list[str]

    class Locked(BaseModel):
        _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @dataclass(slots=True)
    class Point:
        x: int

    class Colour(Enum):
        RED = "red"

    reply = create_model("Reply", text=(str, ...))
    kinds = [Plan, Point, Colour, reply]

    class State(TypedDict, total=False):
        tasks: dict[str, str]
        held: list[Any]

    def make(state: State) -> dict[str, Any]:
        step("make", state["tasks"])

        class Passing(BaseModel):
            number: int = 1

        more = {"": [], "node": [Passing()], "lock": [Locked()]}[extra]
        return {"held": [Plan(steps=["a"]), Point(1), Colour.RED, reply(text="b"), *more]}

    def wait(state: State) -> dict[str, Any]:
        step("wait", state["tasks"])
        return {}

    def tell(state: State) -> dict[str, Any]:
        note(f"same kinds: {all(map(isinstance, state['held'], kinds))}")
        return {}

    graph = StateGraph(State)
    graph.add_sequence([make, wait, tell])
    graph.add_edge(START, "make")
    graph.add_edge("tell", END)
    return graph.compile()


at_import = _made()
once_more = _made()
by_a_node = _made("node")
with_a_lock = _made("lock")


def for_each_item(config: dict[str, Any]) -> Any:
    return _made()
