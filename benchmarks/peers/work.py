"""The work every peer does: some workers take workflows from a queue, each a row of calls. Standard library only.

Scripts in other environments import it by its place beside them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any


@dataclass(frozen=True)
class Plan:
    """What to do, with which keys; read from the file named on the command line."""

    base_url: str
    model: str
    secrets: list[str]
    requests_per_minute: int
    """Of each key, so that a peer that can pace itself knows what we know."""
    workflows: int
    calls: int
    workers: int
    seconds_at_most: float
    """A peer that is not done by then gives up on what is left."""
    retry_seconds: float
    """What to sleep after a failure; 0 means to give the workflow up."""

    @classmethod
    def from_command_line(cls) -> Plan:
        fields: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
        return cls(**fields)


class OutOfTime(Exception):
    """The plan's time is over."""


def run(plan: Plan, call: Callable[[str], object]) -> None:
    """Do the plan's workflows with `call`, and print how many of them failed, with the first reason."""
    queue: SimpleQueue[int] = SimpleQueue()
    for number in range(plan.workflows):
        queue.put(number)
    reasons: list[str] = []
    ends_at = time.monotonic() + plan.seconds_at_most

    def work() -> None:
        while True:
            try:
                number = queue.get_nowait()
            except Empty:
                return
            try:
                for turn in range(plan.calls):
                    _persist(plan, ends_at, call, f"workflow {number}, call {turn}")
            except Exception as error:
                reasons.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(plan.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"failed": len(reasons), "reason": reasons[0] if reasons else ""}), flush=True)


def _persist(plan: Plan, ends_at: float, call: Callable[[str], object], prompt: str) -> None:
    """Call until it works, if the plan is to try again."""
    while True:
        try:
            call(prompt)
            return
        except Exception:
            if plan.retry_seconds <= 0:
                raise
            if time.monotonic() + plan.retry_seconds > ends_at:
                raise OutOfTime(f"not done in {plan.seconds_at_most:g} s") from None
            time.sleep(plan.retry_seconds)
