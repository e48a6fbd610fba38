"""A run in one HTML file that asks nobody for anything: to hand over, or to attach to CI.

Every byte from a record, a log or a name is escaped. There is no script in it, and its policy allows none.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

from agentos.dashboard.view import ItemView, RunState, RunView
from agentos.outcomes import Outcome
from agentos.reporters.wording import counts_in_words
from agentos.text.terminal import clean_block
from agentos.text.words import duration, one_line

LOG_BYTES: Final = 12_000
"""The end of each item's log that the report holds."""
_LONGEST_TEXT: Final = 2_000
_MOST_TIMELINE_ITEMS: Final = 400
_LANE, _WIDTH, _LABELS = 14, 1000, 160
"""Of the timeline, in pixels."""

_STYLE_PATH: Final = Path(__file__).with_name("static") / "report.css"

ReadLog = Callable[[ItemView], str]


def html_report(view: RunView, read_log: ReadLog) -> str:
    """The whole file. `read_log` gives the end of an item's log."""
    style = _STYLE_PATH.read_text(encoding="utf-8")
    fingerprint = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{fingerprint}'"
    title = f"{view.workflow or 'run'} {view.run_id}"
    body = "\n".join(
        (_head(view), _needs_you(view), _items(view), _timeline(view), _notes(view), _details(view, read_log))
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<style>{style}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def markdown_summary(view: RunView) -> str:
    """For the summary page of a CI job."""
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


def _text(value: object) -> str:
    """Escaped, and without what steers a terminal or turns the direction of a line."""
    return escape(one_line(str(value), longest=_LONGEST_TEXT))


def _cell(value: str) -> str:
    return escape(one_line(value)).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


def _headline(view: RunView) -> str:
    counts = counts_in_words(view.counts) if view.counts else "nothing has ended"
    return f"{view.state}, {counts}"


def _head(view: RunView) -> str:
    facts = {
        "Project": view.project_dir,
        "Run": view.run_id,
        "Started": view.started,
        "Time": duration(view.elapsed),
        "At a time": str(view.parallel),
        "Models": ", ".join(view.models),
        "Keys": ", ".join(view.keys),
        "Tokens": f"{view.tokens:,}" if view.tokens else "",
        "Cost": _money(view),
        "Paused by": view.paused_by,
        "Exit code": "" if view.exit_code is None else str(view.exit_code),
    }
    rows = "".join(f"<tr><th>{name}</th><td>{_text(value)}</td></tr>" for name, value in facts.items() if value)
    kind = "bad" if view.state is RunState.LOST or view.exit_code else "good" if view.exit_code == 0 else "warn"
    heading = f'{_text(view.workflow)}: <span class="{kind}">{_text(_headline(view))}</span>'
    return f"<h1>{heading}</h1>\n<table>{rows}</table>"


def _money(view: RunView) -> str:
    if view.budget_usd is not None:
        return f"${view.cost_usd:.2f} of ${view.budget_usd:.2f}"
    return f"${view.cost_usd:.4f}" if view.cost_usd else ""


def _needs_you(view: RunView) -> str:
    waiting = view.needing_somebody
    if not waiting:
        return ""
    rows = "".join(
        f'<tr><td><a href="#item-{place}">{_text(item.label)}</a></td><td>{_outcome(item.outcome)}</td>'
        f"<td>{_text(item.reason or item.error_type)}</td></tr>"
        for place, item in _placed(view, waiting)
    )
    return f'<h2>Needs you</h2><div class="scroll"><table>{rows}</table></div>'


def _placed(view: RunView, wanted: list[ItemView]) -> list[tuple[int, ItemView]]:
    places = {item_id: place for place, item_id in enumerate(view.items)}
    return [(places[item.id], item) for item in wanted]


def _outcome(outcome: Outcome | None) -> str:
    if outcome is None:
        return '<span class="dim">not ended</span>'
    kind = "bad" if outcome.is_failure else "warn" if outcome.needs_person or outcome.is_unfinished else "good"
    return f'<span class="{kind}">{_text(outcome.in_words())}</span>'


def _state_words(view: RunView, item: ItemView) -> str:
    if item.outcome is not None:
        return item.outcome.in_words()
    if item.started is None:
        return "not started"
    return f"running: {item.node}" if view.state is not RunState.LOST and item.node else "not ended"


def _items(view: RunView) -> str:
    headings = '<tr><th>Item</th><th>Outcome</th><th class="n">Time</th><th class="n">Attempts</th>'
    headings += '<th class="n">Tokens</th><th class="n">Cost</th><th>Steps</th></tr>'
    rows = "".join(_item_row(view, place, item) for place, item in enumerate(view.items.values()))
    return f'<h2>Items</h2><div class="scroll"><table>{headings}{rows}</table></div>'


def _item_row(view: RunView, place: int, item: ItemView) -> str:
    state = _outcome(item.outcome) if item.outcome else f'<span class="dim">{_text(_state_words(view, item))}</span>'
    tokens = item.input_tokens + item.output_tokens
    cells = [
        f'<td><a href="#item-{place}">{_text(item.label)}</a></td>',
        f"<td>{state}</td>",
        f'<td class="n">{duration(item.seconds) if item.seconds else ""}</td>',
        f'<td class="n">{item.attempts or ""}</td>',
        f'<td class="n">{f"{tokens:,}" if tokens else ""}</td>',
        f'<td class="n">{f"${item.cost_usd:.4f}" if item.cost_usd else ""}</td>',
        f'<td class="dim">{_text(" · ".join(dict.fromkeys(span.node for span in item.spans)))}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>\n"


def _timeline(view: RunView) -> str:
    """One lane per item, one bar per node."""
    shown = [item for item in view.items.values() if item.spans][:_MOST_TIMELINE_ITEMS]
    if not shown or view.elapsed <= 0:
        return ""
    scale = (_WIDTH - _LABELS) / view.elapsed
    bars = []
    for lane, item in enumerate(shown):
        top = lane * _LANE
        bars.append(f'<text x="0" y="{top + 11}">{_text(item.label[:24])}</text>')
        for span in item.spans:
            end = view.elapsed if span.end is None else span.end
            width = max(1.0, (end - span.start) * scale)
            told = f"{span.node}, {duration(end - span.start)}"
            kind = "" if span.end is not None else ' class="warn"'
            place = f'x="{_LABELS + span.start * scale:.1f}" y="{top + 2}" width="{width:.1f}" height="{_LANE - 4}"'
            bars.append(f"<rect{kind} {place}><title>{_text(item.label)}: {_text(told)}</title></rect>")
    told = f"{duration(view.elapsed)} from left to right; a bar is a step."
    size = f'viewBox="0 0 {_WIDTH} {len(shown) * _LANE}"'
    picture = f'<svg role="img" aria-label="When each item was at work" {size}>{"".join(bars)}</svg>'
    return f'<h2>Timeline</h2><p class="dim">{told}</p>{picture}'


def _notes(view: RunView) -> str:
    if not view.notes:
        return ""
    rows = "".join(
        f'<tr><td class="n dim">{duration(note.at)}</td><td>{_text(note.text)}</td></tr>' for note in view.notes
    )
    return f'<h2>What happened to the run</h2><div class="scroll"><table>{rows}</table></div>'


def _details(view: RunView, read_log: ReadLog) -> str:
    parts = [_detail(place, item, read_log(item)) for place, item in enumerate(view.items.values())]
    return f"<h2>Logs</h2>\n{''.join(parts)}"


def _detail(place: int, item: ItemView, log: str) -> str:
    notices = "".join(f"<p>{_text(notice)}</p>" for notice in item.notices)
    reason = f"<p>{_text(item.reason)}</p>" if item.reason else ""
    safe = clean_block(f"{log}\n".encode(errors="replace"), keep_colour=False).decode(errors="replace")
    shown = f"<pre>{escape(safe.rstrip())}</pre>" if log else '<p class="dim">It has no log.</p>'
    is_open = " open" if item.needs_person else ""
    return (
        f'<details id="item-{place}"{is_open}><summary>{_text(item.label)} {_outcome(item.outcome)}</summary>'
        f"{reason}{notices}{shown}</details>\n"
    )
