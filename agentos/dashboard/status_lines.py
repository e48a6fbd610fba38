"""How a run stands now, in lines: what `agentos ctl` says, and `runs show` of a run that has no summary yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.dashboard.block import block
from agentos.dashboard.needs import needs_of
from agentos.dashboard.payload import Surroundings, strip
from agentos.dashboard.view import RunView
from agentos.outcomes import INTERRUPTED
from agentos.reporters.wording import counts_in_words
from agentos.text.words import counted, dollars, listed, one_line, stopwatch

_MOST_LINES = 40


def status_lines(view: RunView, columns: int, past_seconds: Sequence[float] = ()) -> list[str]:
    """The run in a line, then what is under way, then what needs somebody."""
    told = strip(view, Surroundings(past_seconds=past_seconds))
    facts = [
        _state(told["words"], told["detail"]),
        f"{stopwatch(view.elapsed)} so far",
        told["eta"]["words"] if told["eta"] else "",
        _money(view),
        f"{view.parallel} at a time{f' ({one_line(view.parallel_reason)})' if view.parallel_reason else ''}",
    ]
    running = [] if view.is_over else [line.text for line in block(view, "", columns, _MOST_LINES)]
    return [", ".join(filter(None, facts)), *filter(None, running), *_needs(view)]


def count_lines(view: RunView) -> list[str]:
    """How many items have ended, and how; which were stopped, and which wait for their turn."""
    ended = {outcome: number for outcome, number in view.counts.items() if outcome != INTERRUPTED}
    words = f": {counts_in_words(ended)}" if ended else ""
    left = [item for item in view.items.values() if item.outcome in (None, INTERRUPTED) and not item.is_running]
    stopped = [item.label for item in left if item.is_withdrawn]
    to_start = [item.label for item in left if not item.is_withdrawn]
    return [
        f"{view.ended_count:,} of {counted(len(view.items), 'item')} ended{words}",
        *(_labels(labels, words) for labels, words in ((stopped, "stopped"), (to_start, "not started")) if labels),
    ]


def _labels(labels: Sequence[str], words: str) -> str:
    return f"{counted(len(labels), 'item')} {words}: {listed([one_line(label, 100) for label in labels])}"


def _state(words: str, detail: str) -> str:
    """`Paused by ada: lunch`, `Coordinator lost: its process died`."""
    return f"{words}{' ' if detail.startswith('by ') else ': '}{detail}" if detail else words


def _money(view: RunView) -> str:
    if view.budget_usd is not None:
        return f"{dollars(view.cost_usd)} of {dollars(view.budget_usd)} spent"
    return f"{dollars(view.cost_usd)} spent" if view.cost_usd else ""


def _needs(view: RunView) -> list[str]:
    """What the page has under "Needs you" of the run itself, and which items are there."""
    found = needs_of(view, may_control=False)
    lines = [f"Needs you: {need['text']}" for need in found if need["item"] is None]
    items = dict.fromkeys(need["item"] for need in found if need["item"] is not None)
    labels = listed([one_line(view.items[item_id].label, 100) for item_id in items])
    return lines + ([f"Needs you: {counted(len(items), 'item')}: {labels}"] if items else [])
