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
    records = last_records(directory / "home")
    first_node = _moment(next(r for r in records if r["type"] == "node_started"))
    last_end = _moment([r for r in records if r["type"] == "item_ended"][-1])
    verdict("60 items of 1 s at 10, first node to last end / ideal", (last_end - first_node) / 6.0, 1.04)
    verdict("first node after the command", first_node - began, 1.5, " s")


def _six_at_three(directory: Path) -> None:
    write_items(directory / "six.jsonl", 6, seconds=1.0)
    one_by_one = timed(_command("six.jsonl", 1), directory).wall_seconds
    at_three = timed(_command("six.jsonl", 3), directory).wall_seconds
    verdict("6 items of 1 s at 3 / one by one", at_three / one_by_one, 0.5)
    write_items(directory / "longer.jsonl", 6, seconds=5.0)
    one_by_one = timed(_command("longer.jsonl", 1), directory).wall_seconds
    at_three = timed(_command("longer.jsonl", 3), directory).wall_seconds
    verdict("6 items of 5 s at 3 / one by one", at_three / one_by_one, 0.4)


def _command(items: str, parallel: int) -> list[str]:
    return [AGENTOS, "run", "--graph", "flow.py:graph", "--items", items, "--parallel", str(parallel)]


def _moment(record: dict[str, Any]) -> float:
    return datetime.fromisoformat(record["time"]).timestamp()
