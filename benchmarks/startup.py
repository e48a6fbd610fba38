"""How soon the command answers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import AGENTOS, EMPTY_GRAPH, scratch, timed, verdict, write_items


def main() -> None:
    with scratch() as directory:
        (directory / "flow.py").write_text(EMPTY_GRAPH)
        write_items(directory / "items.jsonl", 1000)
        verdict("agentos --help", _best([AGENTOS, "--help"], directory), 0.2, " s")
        command = [AGENTOS, "run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--dry-run"]
        verdict("--dry-run of 1,000 items", _best(command, directory), 0.5, " s")
        verdict("agentos runs", _best([AGENTOS, "runs"], directory), 0.5, " s")


def _best(command: list[str], directory: Path) -> float:
    """The best of five: what the command needs, without what the machine did besides."""
    return min(timed(command, directory).wall_seconds for _ in range(5))
