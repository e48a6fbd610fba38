"""Graphs of every kind people write: async nodes, parallel nodes, a typed state, a gate for a human, verdicts."""

from __future__ import annotations

import asyncio
import os
from operator import add
from typing import Annotated, Any, TypedDict

from journal import note, step
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict


class State(TypedDict, total=False):
    tasks: dict[str, str]
    trail: Annotated[list[str], add]
    outcome: str
    reason: str
    odd: Any


def _node(name: str) -> Any:
    def run(state: State) -> State:
        step(name, state.get("tasks", {}))
        return {"trail": [name]}

    return run


def _async_node(name: str) -> Any:
    async def run(state: State) -> State:
        await asyncio.sleep(0.001)
        await asyncio.to_thread(step, name, state.get("tasks", {}))
        return {"trail": [name]}

    return run


def _tell_trail(state: State) -> State:
    note(f"{os.environ['AGENTOS_ITEM_ID']} trail {' '.join(state['trail'])}")
    return {}


def _fan_out(make_node: Any) -> Any:
    """first, then left and right in one step, then tell."""
    made = StateGraph(State)
    for name in ("first", "left", "right"):
        made.add_node(name, make_node(name))
    made.add_node("tell", _tell_trail)
    made.add_edge(START, "first")
    for name in ("left", "right"):
        made.add_edge("first", name)
    made.add_edge(["left", "right"], "tell")
    made.add_edge("tell", END)
    return made


def _single(name: str, run: Any, schema: Any = State) -> Any:
    made = StateGraph(schema)
    made.add_node(name, run)
    made.add_edge(START, name)
    made.add_edge(name, END)
    return made


class Typed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int
    outcome: str = ""


def _count_up(state: Typed) -> dict[str, Any]:
    return {"count": state.count + 1, "outcome": f"counted-{state.count + 1}"}


def _ask(state: State) -> State:
    answer = interrupt({"question": "good enough?"})
    return {"outcome": str(answer)}


def _gate() -> Any:
    made = StateGraph(State)
    made.add_node("draft", _node("draft"))
    made.add_node("ask", _ask)
    made.add_edge(START, "draft")
    made.add_edge("draft", "ask")
    made.add_edge("ask", END)
    return made


async def _awaited_choice(state: State) -> str:
    await asyncio.sleep(0)
    return "inner"


def _awaited_in_parts() -> Any:
    """Plain nodes throughout; what has to be awaited is a choice, a node of a subgraph, a link of a chain."""
    made = StateGraph(State)
    made.add_node("first", _node("first"))
    made.add_node("inner", _single("deep", _async_node("deep")).compile())
    made.add_node("chained", RunnableLambda(lambda state: state) | RunnableLambda(_async_node("chained")))
    made.add_edge(START, "first")
    made.add_conditional_edges("first", _awaited_choice, ["inner"])
    made.add_edge("inner", "chained")
    made.add_edge("chained", END)
    return made


parallel = _fan_out(_node)
asynchronous = _fan_out(_async_node)
typed = _single("count_up", _count_up, Typed)
verdict = _single("judge", lambda state: {})
unsaveable = _single("odd", lambda state: {"odd": open(os.devnull)} if state.get("tasks") else {})  # noqa: SIM115, PTH123
gate = _gate
awaited_in_parts = _awaited_in_parts
