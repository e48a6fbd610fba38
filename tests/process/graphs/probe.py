"""One node that writes down what its process looks like from inside."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TypedDict

from journal import sandbox_file
from langgraph.graph import END, START, StateGraph

times_run_in_this_process = 0


class State(TypedDict, total=False):
    note: str


def look_around(state: State) -> State:
    global times_run_in_this_process
    times_run_in_this_process += 1
    item = os.environ["AGENTOS_ITEM_ID"]
    db_path = Path(os.environ["AGENTOS_WORKFLOW_DB"])
    seen: dict[str, Any] = {
        "pid": os.getpid(),
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "cwd": str(Path.cwd()),
        "db": str(db_path),
        "db_exists": db_path.exists(),
        "stdin": str(Path("/proc/self/fd/0").readlink()),
        "stdin_text": sys.stdin.read(),
        "times_run_in_this_process": times_run_in_this_process,
        "inheritable_descriptors": _inheritable_descriptors(),
        "environment": dict(os.environ),
    }
    sandbox_file(f"{item}.json").write_text(json.dumps(seen))
    return {}


def _inheritable_descriptors() -> list[str]:
    """What a child of this node would get beside the three standard streams."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if int(entry.name) > 2 and os.get_inheritable(int(entry.name)):
                found.append(f"{entry.name} -> {entry.readlink()}")
        except OSError:
            continue  # The descriptor this listing itself used.
    return found


graph = StateGraph(State)
graph.add_node("look_around", look_around)
graph.add_edge(START, "look_around")
graph.add_edge("look_around", END)
