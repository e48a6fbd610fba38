"""How long a stop takes, with workers that ignore every request."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from benchmarks.harness import AGENTOS, scratch, verdict, write_items

WORKERS = 8
STUBBORN_GRAPH = """
import pathlib, signal, time
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    ready_dir: str

def ignore_everything(state):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    (pathlib.Path(state["ready_dir"]) / str(time.monotonic_ns())).touch()
    time.sleep(3600)

graph = StateGraph(State)
graph.add_node("ignore", ignore_everything)
graph.add_edge(START, "ignore")
graph.add_edge("ignore", END)
"""


def main() -> None:
    verdict(f"one Ctrl+C, {WORKERS} workers that ignore it", _stop_seconds(presses=1), 5, " s")
    verdict(f"a second one, {WORKERS} workers that ignore it", _stop_seconds(presses=2), 1.5, " s")


def _stop_seconds(presses: int) -> float:
    """From the last Ctrl+C to the end of the command."""
    with scratch() as directory:
        ready_dir = directory / "ready"
        ready_dir.mkdir()
        (directory / "flow.py").write_text(STUBBORN_GRAPH)
        write_items(directory / "items.jsonl", WORKERS, ready_dir=str(ready_dir))
        command = [AGENTOS, "run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--parallel", str(WORKERS)]
        with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
            _wait_for_workers(ready_dir)
            assert process.stdout is not None
            os.kill(process.pid, signal.SIGINT)
            for line in process.stdout:
                if "Shutting down" in line:
                    break
            began = time.monotonic()
            if presses == 2:
                os.kill(process.pid, signal.SIGINT)
            process.communicate()
            return time.monotonic() - began


def _wait_for_workers(ready_dir: Path) -> None:
    while len(list(ready_dir.iterdir())) < WORKERS:
        time.sleep(0.01)
