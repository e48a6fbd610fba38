"""`python -m benchmarks before COMMIT`: an earlier commit and this tree in turns, as ratios.

Both run under this interpreter and its packages, so that only AgentOS differs. The best of several rounds counts:
what a command needs, without what the machine did besides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import EMPTY_GRAPH, scratch, timed, verdict, write_items

MOST = 1.1
"""What may be noise: the best of a few rounds still differs by some percent."""
ROUNDS = 6
HERE = Path(__file__).parents[1]

_PROGRAM = """
import sys
from agentos.cli.main import main
try:
    sys.exit(main(sys.argv[1:]))
finally:
    with open("/proc/self/status") as status, open("peak", "w") as peak:
        peak.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""
"""The command, which tells last how much memory it needed: of this process alone.

With words of its own it is no program that ends at once, and comes by its last lines.
"""

_RUN = ("run", "--graph", "flow.py:graph")
_CASES = {
    "--help": ("--help",),
    "--dry-run of 100 items": (*_RUN, "--items", "hundred.jsonl", "--parallel", "3", "--dry-run"),
    "one item": (*_RUN, "--items", "one.jsonl"),
    "100 items, 3 at once": (*_RUN, "--items", "hundred.jsonl", "--parallel", "3"),
}


@dataclass(frozen=True)
class Needed:
    """What one command needed."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float


def main(commit: str) -> None:
    with scratch() as directory, _checkout(commit) as earlier:
        (directory / "flow.py").write_text(EMPTY_GRAPH)
        (directory / "agentos").write_text(_PROGRAM)
        write_items(directory / "one.jsonl", 1)
        write_items(directory / "hundred.jsonl", 100)
        for label, arguments in _CASES.items():
            rounds = [
                (_needed(earlier, arguments, directory), _needed(HERE, arguments, directory)) for _ in range(ROUNDS)
            ]
            _compare(label, *(_best(side) for side in zip(*rounds, strict=True)))


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agentos-before-") as parent:
        tree = Path(parent) / "tree"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _needed(tree: Path, arguments: Sequence[str], directory: Path) -> Needed:
    with tempfile.TemporaryDirectory(dir=directory) as home:
        environment = {**os.environ, "PYTHONPATH": str(tree), "AGENTOS_HOME": home}
        timing = timed([sys.executable, "-P", "agentos", *arguments], directory, environment=environment)
    peak = directory / "peak"
    try:
        return Needed(timing.wall_seconds, timing.cpu_seconds, int(peak.read_text()) / 1024)
    finally:
        peak.unlink()  # Whoever tells nothing shall not be taken for the one before.


def _best(rounds: Sequence[Needed]) -> Needed:
    return Needed(
        min(each.wall_seconds for each in rounds),
        min(each.cpu_seconds for each in rounds),
        min(each.peak_mb for each in rounds),
    )


def _compare(label: str, before: Needed, now: Needed) -> None:
    print(f"   {label}: {_words(before)} before, {_words(now)} now")
    verdict(f"{label}, wall time now / before", now.wall_seconds / before.wall_seconds, MOST)
    verdict(f"{label}, CPU time now / before", now.cpu_seconds / before.cpu_seconds, MOST)
    verdict(f"{label}, memory of the command now / before", now.peak_mb / before.peak_mb, MOST)


def _words(needed: Needed) -> str:
    return f"{needed.wall_seconds:.3f} s ({needed.cpu_seconds:.3f} s CPU, {needed.peak_mb:.0f} MB)"
