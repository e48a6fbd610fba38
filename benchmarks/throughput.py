"""100 items of an empty three-node graph, everything on, against GNU parallel with one Python process an item."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.harness import AGENTOS, EMPTY_GRAPH, Timing, has_gnu_parallel, scratch, timed, verdict, write_items

ITEMS = 100
PEER_ITEMS = 30
"""GNU parallel's cost an item does not depend on how many there are; fewer keep the run short."""
_PEER = """
import sqlite3, sys
from langgraph.checkpoint.sqlite import SqliteSaver
import flow
connection = sqlite3.connect(f"peer-{sys.argv[1]}.db", check_same_thread=False)
graph = flow.graph.compile(checkpointer=SqliteSaver(connection))
graph.invoke({}, {"configurable": {"thread_id": sys.argv[1]}}, durability="sync")
"""


def main() -> None:
    has_peer = has_gnu_parallel()
    for parallel in (3, 10):
        with scratch() as directory:
            (directory / "flow.py").write_text(EMPTY_GRAPH)
            (directory / "peer.py").write_text(_PEER)
            write_items(directory / "items.jsonl", ITEMS)
            command = [
                AGENTOS,
                "run",
                "--graph",
                "flow.py:graph",
                "--items",
                "items.jsonl",
                "--parallel",
                str(parallel),
            ]
            ours = timed(command, directory)
            wall = ours.wall_seconds / ITEMS
            print(f"   at {parallel}: ours {wall * 1000:.1f} ms wall an item, start-up included")
            verdict(f"CPU an item at {parallel}", ours.cpu_seconds / ITEMS * 1000, 50, " ms")
            if has_peer:
                peer = _peer(directory, parallel)
                peer_wall, peer_cpu = peer.wall_seconds / PEER_ITEMS, peer.cpu_seconds / PEER_ITEMS
                print(f"   GNU parallel: {peer_wall * 1000:.1f} ms wall, {peer_cpu * 1000:.0f} ms CPU an item")
                verdict(f"ours / GNU parallel at {parallel}", wall / peer_wall, 1 / 15)


def _peer(directory: Path, parallel: int) -> Timing:
    ids = "\n".join(str(number) for number in range(PEER_ITEMS)).encode()
    command = ["parallel", "--will-cite", "-j", str(parallel), sys.executable, "peer.py", "{}"]
    return timed(command, directory, stdin=ids)
