"""An item that says what no worker says, or writes where no document belongs: `input["says"]`, `input["writes"]`."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TypedDict

from journal import note
from langgraph.graph import END, START, StateGraph

from agentos import outputs


class State(TypedDict, total=False):
    says: str
    leaves: bool
    waits: bool
    writes: str


def act(state: State) -> State:
    item = os.environ["AGENTOS_ITEM_ID"]
    note(f"{item} act")
    if "writes" in state:
        outputs.write(state["writes"], f"by {item}\n")
    if "says" in state:
        os.write(_socket_of_the_worker(), state["says"].encode() + b"\n")
    if state.get("leaves"):
        os._exit(0)
    while state.get("waits"):
        time.sleep(1)
    return {}


def last(state: State) -> State:
    return {}


def _socket_of_the_worker() -> int:
    descriptors = (int(path.name) for path in Path("/proc/self/fd").iterdir())
    return next(d for d in descriptors if d > 2 and stat.S_ISSOCK(os.fstat(d).st_mode))


graph = StateGraph(State)
graph.add_node("act", act)
graph.add_node("last", last)
graph.add_edge(START, "act")
graph.add_edge("act", "last")
graph.add_edge("last", END)
