"""Prefixed output of 3 jobs in a burst, against GNU parallel's --line-buffer --tag; no line torn or lost."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

from benchmarks.harness import AGENTOS, has_gnu_parallel, last_records, scratch, timed, verdict, write_items

JOBS = 3
MEGABYTES = 60
_LINE = "x" * 79
_WRITER = f"""
import sys
block = ({_LINE!r} + "\\n") * 1000
for _ in range({MEGABYTES} * 1000 // 80):
    sys.stdout.write(block)
sys.stdout.flush()
"""
_GRAPH = f"""
import sys
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    n: int

def write(state):
    block = ({_LINE!r} + "\\n") * 1000
    for _ in range({MEGABYTES} * 1000 // 80):
        sys.stdout.write(block)
    sys.stdout.flush()
    return {{}}

graph = StateGraph(State)
graph.add_node("write", write)
graph.add_edge(START, "write")
graph.add_edge("write", END)
"""


def main() -> None:
    with scratch() as directory:
        (directory / "flow.py").write_text(_GRAPH)
        (directory / "writer.py").write_text(_WRITER)
        write_items(directory / "items.jsonl", JOBS)
        ours = _ours(directory)
        print(f"   ours: {ours:.0f} MB/s, logs written too")
        if has_gnu_parallel():
            peer = _peer(directory)
            print(f"   GNU parallel --line-buffer --tag: {peer:.0f} MB/s")
            verdict("ours / GNU parallel", ours / peer, 1.0, at_least=True)


def _ours(directory: Path) -> float:
    """From the first node's start to the last item's end: starting Python is not output."""
    command = [AGENTOS, "run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--parallel", str(JOBS)]
    output = timed(command, directory).output
    wanted = MEGABYTES * 1000 // 80 * 1000
    counts = Counter(re.findall(rb"^\[(i\d)\] x{79}$", output, re.MULTILINE))
    torn = [line for line in output.splitlines() if b"x" * 5 in line and not re.fullmatch(rb"\[i\d\] x{79}", line)]
    verdict("lines torn or lost", len(torn) + sum(abs(wanted - counts[f"i{n}".encode()]) for n in range(JOBS)), 0)
    records = last_records(directory / "home")
    moments = [
        datetime.fromisoformat(r["time"]).timestamp() for r in records if r["type"] in ("node_started", "item_ended")
    ]
    return JOBS * MEGABYTES / (moments[-1] - moments[0])


def _peer(directory: Path) -> float:
    """The same without output tells what starting three interpreters costs."""
    (directory / "silent.py").write_text("")
    options = ["parallel", "--will-cite", "-j3", "--line-buffer", "--tag", sys.executable]
    start_up = timed([*options, "silent.py", ":::", "1", "2", "3"], directory).wall_seconds
    wall = timed([*options, "writer.py", ":::", "1", "2", "3"], directory).wall_seconds
    return JOBS * MEGABYTES / max(0.05, wall - start_up)
