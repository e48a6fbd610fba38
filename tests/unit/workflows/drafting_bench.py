"""A project to draft for, and models whose answers a test decides. The graph and its nodes are the real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.documents.approval import document_hash
from agentos.llm import OfflineRequest, register_offline

ISSUE = """# Add totals

## User Story

As a user, I want totals, so that I see what I owe.

## Requirements

1. `total(prices)` returns the sum of the prices.
2. An empty list gives zero.
"""


@dataclass
class Bench:
    """Runs a drafting graph in this process."""

    project: Path
    asked: list[tuple[str, OfflineRequest]] = field(default_factory=list)

    def answer(self, task: str, answer: Callable[[OfflineRequest], Any]) -> None:
        """Let a test decide what the offline model says to a task, such as `lld.review`."""

        def noted(request: OfflineRequest) -> Any:
            self.asked.append((task, request))
            return answer(request)

        register_offline(task, noted)

    def prompts(self, task: str) -> list[str]:
        return [request.prompt for name, request in self.asked if name == task]

    def design(self, text: str = ISSUE, item_id: str = "7") -> dict[str, Any]:
        from agentos.workflows.lld.graph import graph

        return self._run(graph, text, item_id, f"docs/issues/{item_id}-totals.md")

    def write_issue(self, text: str, item_id: str = "totals") -> dict[str, Any]:
        from agentos.workflows.issue.graph import graph

        return self._run(graph, text, item_id, f"ideas/active/{item_id}.md")

    def document(self, item_id: str = "7") -> str:
        return (self.project / f"docs/lld/active/LLD-{item_id}.md").read_text()

    def _run(self, graph: Any, text: str, item_id: str, origin: str) -> dict[str, Any]:
        state = self.state(text, item_id, origin)
        result: dict[str, Any] = graph.compile().invoke(state, {"recursion_limit": 100})
        return result

    def state(self, text: str, item_id: str, origin: str) -> dict[str, Any]:
        """What a run would give the graph."""
        return {
            "item_id": item_id,
            "title": "Add totals",
            "source_text": text,
            "source_hash": document_hash(text),
            "origin": str(self.project / origin),
        }
