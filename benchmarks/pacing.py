"""How close to ideal items of a known length come, and how soon the first one runs."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import AGENTOS, SLEEPING_GRAPH, last_records, scratch, timed, verdict, write_items


def main() -> None:
    with scratch() as directory:
        (directory / "flow.py").write_text(SLEEPING_GRAPH)
        _sixty_at_ten(directory)
        _six_at_three(directory)


def _sixty_at_ten(directory: Path) -> None:
    write_items(directory / "sixty.jsonl", 60, seconds=1.0)
    began = time.time()
    timed(_command("sixty.jsonl", 10), directory)
    first_node, last_end = _working_time(directory)
    verdict("60 items of 1 s at 10, first node to last end / ideal", (last_end - first_node) / 6.0, 1.04)
    verdict("first node after the command", first_node - began, 1.5, " s")


def _six_at_three(directory: Path) -> None:
    """The whole command as well: with items this short, loading LangGraph is a good part of it, once in both."""
    write_items(directory / "six.jsonl", 6, seconds=1.0)
    whole, working = {}, {}
    for parallel in (1, 3):
        whole[parallel] = timed(_command("six.jsonl", parallel), directory).wall_seconds
        first_node, last_end = _working_time(directory)
        working[parallel] = last_end - first_node
    verdict("6 items of 1 s at 3 / one by one, first node to last end", working[3] / working[1], 0.4)
    print(f"   the whole command, start-up included: {whole[3] / whole[1]:.3g}")


def _working_time(directory: Path) -> tuple[float, float]:
    """When the first node of the newest run started, and when its last item ended."""
    records = last_records(directory / "home")
    first_node = next(record for record in records if record["type"] == "node_started")
    last_end = [record for record in records if record["type"] == "item_ended"][-1]
    return _moment(first_node), _moment(last_end)


def _command(items: str, parallel: int) -> list[str]:
    return [AGENTOS, "run", "--graph", "flow.py:graph", "--items", items, "--parallel", str(parallel)]


def _moment(record: dict[str, Any]) -> float:
    return datetime.fromisoformat(record["time"]).timestamp()
