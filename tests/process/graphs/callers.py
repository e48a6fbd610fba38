"""Nodes that call a model: `prepare`, then `ask` (as often as `calls` says), then `finish`."""

from __future__ import annotations

import os
import sys
from operator import add
from typing import Annotated, Any, TypedDict

from journal import note, step
from langgraph.graph import END, START, StateGraph

from agentos.llm import agenerate, generate

MODEL = "google:gemini-2.5-flash"


class State(TypedDict, total=False):
    model: str
    calls: int
    rounds: int
    max_output_tokens: int
    tasks: dict[str, str]
    answers: Annotated[list[str], add]


def _item() -> str:
    return os.environ["AGENTOS_ITEM_ID"]


def _options(state: State) -> dict[str, Any]:
    return {"model": state.get("model", MODEL), "max_output_tokens": state.get("max_output_tokens")}


def prepare(state: State) -> State:
    step("prepare", state.get("tasks", {}))
    return {}


def ask(state: State) -> State:
    texts = []
    note(f"{_item()} has its SDK: {'google.genai' in sys.modules}")
    for number in range(state.get("calls", 1)):
        note(f"{_item()} asks {number} pid {os.getpid()}")
        texts.append(generate(f"{_item()} asks {number}", **_options(state)).text)
        note(f"{_item()} answered {number}")
    return {"answers": texts}


async def ask_async(state: State) -> State:
    return {"answers": [(await agenerate(f"{_item()} asks", **_options(state))).text]}


def finish(state: State) -> State:
    step("finish", state.get("tasks", {}))
    return {}


def ask_until_released(state: State) -> State:
    """Notes when its call is given up, which a killed process could not."""
    try:
        return {"answers": [generate(f"{_item()} asks", **_options(state)).text]}
    except BaseException as error:
        note(f"{_item()} gave up: {type(error).__name__}")
        raise


def _again(state: State) -> str:
    return "ask" if len(state["answers"]) < state.get("rounds", 1) else "finish"


def _chain(asking: Any) -> Any:
    made = StateGraph(State)
    for name, run in {"prepare": prepare, "ask": asking, "finish": finish}.items():
        made.add_node(name, run)
    made.add_edge(START, "prepare")
    made.add_edge("prepare", "ask")
    made.add_edge("ask", "finish")
    made.add_edge("finish", END)
    return made


def _loop() -> Any:
    """`ask` and `look` in turn, as often as `rounds` says."""
    made = StateGraph(State)
    made.add_node("ask", ask)
    made.add_node("look", lambda state: step("look", state.get("tasks", {})))
    made.add_node("finish", finish)
    made.add_edge(START, "ask")
    made.add_edge("ask", "look")
    made.add_conditional_edges("look", _again, ["ask", "finish"])
    made.add_edge("finish", END)
    return made


def _side_by_side() -> Any:
    made = StateGraph(State)
    for name in ("left", "right"):
        made.add_node(name, ask_until_released)
        made.add_edge(START, name)
        made.add_edge(name, END)
    return made


graph = _chain(ask)
asynchronous = _chain(ask_async)
loop = _loop()
side_by_side = _side_by_side()
