"""A run in Markdown, for the summary page of a CI job."""

from __future__ import annotations

from html import escape

from agentos.dashboard.view import ItemView, RunState, RunView
from agentos.reporters.wording import counts_in_words
from agentos.text.words import duration, one_line


def markdown_summary(view: RunView) -> str:
    """One row per item, whatever they are called."""
    lines = [
        f"### {_cell(view.workflow)}: {_cell(_headline(view))}",
        "",
        "| item | outcome | time | reason |",
        "|---|---|---|---|",
    ]
    for item in view.items.values():
        cells = (item.label, _state_words(view, item), duration(item.seconds), item.reason)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, "", ""])


def _cell(value: str) -> str:
    return escape(one_line(value)).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


def _headline(view: RunView) -> str:
    counts = counts_in_words(view.counts) if view.counts else "nothing has ended"
    return f"{view.state}, {counts}"


def _state_words(view: RunView, item: ItemView) -> str:
    if item.outcome is not None:
        return item.outcome.in_words()
    if item.started is None:
        return "not started"
    return f"running: {item.node}" if view.state is not RunState.LOST and item.node else "not ended"
