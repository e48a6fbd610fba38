"""What benchmarks share: a scratch project, the installed command, timing of whole process trees."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AGENTOS = str(Path(sys.executable).with_name("agentos"))

EMPTY_GRAPH = """
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    n: int

def step(state):
    return {}

graph = StateGraph(State)
for name in "abc":
    graph.add_node(name, step)
graph.add_edge(START, "a")
graph.add_edge("a", "b")
graph.add_edge("b", "c")
graph.add_edge("c", END)
"""

SLEEPING_GRAPH = """
import time
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    seconds: float

def sleep(state):
    time.sleep(state["seconds"])
    return {}

graph = StateGraph(State)
graph.add_node("sleep", sleep)
graph.add_edge(START, "sleep")
graph.add_edge("sleep", END)
"""


@dataclass(frozen=True)
class Timing:
    wall_seconds: float
    cpu_seconds: float
    output: bytes


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of its own, with AGENTOS_HOME in it."""
    directory = Path(tempfile.mkdtemp(prefix="agentos-bench-"))
    before = os.environ.get("AGENTOS_HOME")
    os.environ["AGENTOS_HOME"] = str(directory / "home")
    try:
        yield directory
    finally:
        if before is None:
            del os.environ["AGENTOS_HOME"]
        else:
            os.environ["AGENTOS_HOME"] = before
        shutil.rmtree(directory, ignore_errors=True)


def timed(
    command: Sequence[str],
    cwd: Path,
    *,
    ok: tuple[int, ...] = (0,),
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Timing:
    """Run to the end; CPU is that of the whole tree of processes that were waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=cwd, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=False
    )
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in ok:
        raise RuntimeError(
            f"{command[0]} exited with {done.returncode}:\n{done.stdout[-2000:].decode(errors='replace')}"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(wall, cpu, done.stdout)


def write_items(path: Path, count: int, **values: Any) -> None:
    lines = [json.dumps({"id": f"i{number}", "input": values}) for number in range(count)]
    path.write_text("\n".join(lines) + "\n")


def last_records(home: Path) -> list[dict[str, Any]]:
    """The event stream of the newest run."""
    run_dir = max((home / "logs" / "parallel").iterdir())
    return [json.loads(line) for line in (run_dir / "workflow-audit.jsonl").read_text().splitlines()]


def has_gnu_parallel() -> bool:
    """GNU's, not moreutils'."""
    path = shutil.which("parallel")
    if path is None:
        print("skipped: GNU parallel is not installed (Debian package: parallel)")
        return False
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if "GNU parallel" not in version.stdout:
        print("skipped: the installed `parallel` is not GNU parallel")
        return False
    return True


missed: list[str] = []
"""What did not reach its bar so far."""


def verdict(label: str, value: float, bar: float, unit: str = "", *, at_least: bool = False) -> None:
    """One line: the number, the bar, and whether it holds. A miss is also noted in `missed`."""
    holds = value >= bar if at_least else value <= bar
    if not holds:
        missed.append(label)
    sign = "≥" if at_least else "≤"
    print(f"   {'ok  ' if holds else 'MISS'} {label}: {value:.3g}{unit} (bar: {sign} {bar:g}{unit})", flush=True)
