"""The live block of a terminal: one line per running item, in as many columns and lines as there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentos.dashboard.view import WAIT_WORDS, ItemView, RunView
from agentos.reporters.painting import BOLD, DIM, YELLOW
from agentos.text.width import cut_to, width
from agentos.text.words import dollars, one_line, stopwatch

MOST_DOTS: Final = 24
_LONGEST_LABEL: Final = 24
_LEAST_LABEL: Final = 8
_GAP: Final = "  "
_PASSED, _NOW, _AHEAD = "●", "◉", "○"
_FIRST_TO_GO: Final = ("tokens", "node", "dots", "elapsed", "cost")
"""Columns that a narrow window does without, in this order. Who it is and what it does stay."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in one style."""

    text: str
    style: str = ""
    """As `Painter.paint` takes it; `ITEM` is the colour of the line's item."""


ITEM: Final = "item"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block, and whose it is."""

    pieces: tuple[Piece, ...]
    label: str = ""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def width(self) -> int:
        return width(self.text)


def block(view: RunView, bar: str, columns: int, most_lines: int, stages: Sequence[str] = ()) -> list[Line]:
    """The running items and the bar below them: never more lines than these, none wider than the columns.

    `stages` are the nodes of the workflow in the order an item meets them. Times are those of the view.
    """
    if most_lines < 1 or columns < 1:
        return []
    room, running = most_lines - 1, view.running
    shown = running if len(running) <= room else running[: max(0, room - 1)]
    rows = [_row(item, view.elapsed, stages) for item in shown]
    lines = _laid_out(rows, columns)
    if room and len(running) > len(shown):
        lines.append(_fitted([Piece(f"+{len(running) - len(shown)} more running", DIM)], columns))
    return [*lines, _fitted([Piece(bar)], columns)]


_Row = dict[str, tuple[Piece, ...]]


def _row(item: ItemView, now: float, stages: Sequence[str]) -> _Row:
    """What there is to say of an item, by column."""
    tokens = item.input_tokens + item.output_tokens
    elapsed = stopwatch(now - item.started) if item.started is not None else ""
    return {
        "label": (Piece(cut_to(one_line(item.label, 200), _LONGEST_LABEL), ITEM),),
        "dots": _dots(item, stages),
        "node": (Piece(_node_words(item)),),
        "doing": (_doing(item, now),),
        "elapsed": (Piece(elapsed, DIM),),
        "tokens": (Piece(f"{tokens:,} tokens" if tokens else "", DIM),),
        "cost": (Piece(dollars(item.cost_usd) if item.cost_usd else "", DIM),),
    }


def _doing(item: ItemView, now: float) -> Piece:
    """What it does this moment, and for how long."""
    if item.calling_since:
        return Piece(f"generating {stopwatch(now - item.calling_since[0])}")
    wait = item.waits_for
    if wait is not None and wait.kind in WAIT_WORDS:
        return Piece(f"{WAIT_WORDS[wait.kind]} {stopwatch(now - wait.start)}", YELLOW)
    if not item.node:
        return Piece("starting" if not item.spans else "between nodes", DIM)
    return Piece(f"working {stopwatch(now - item.spans[-1].start)}")


def _node_words(item: ItemView) -> str:
    """The node, and how often it has come to it if that is more than once."""
    times = sum(span.node == item.node for span in item.spans)
    return one_line(item.node, 40) + (f" ×{times}" if item.node and times > 1 else "")


def _dots(item: ItemView, stages: Sequence[str]) -> tuple[Piece, ...]:
    """One dot per stage: what it has passed, where it is, what is ahead."""
    if not stages or len(stages) > MOST_DOTS or not item.spans:
        return (Piece(_AHEAD * len(stages) if len(stages) <= MOST_DOTS else "", DIM),)
    last = item.spans[-1]
    place = stages.index(last.node) if last.node in stages else -1
    passed = place + 1 if last.end is not None else max(0, place)
    here = _NOW if last.end is None and place >= 0 else ""
    ahead = len(stages) - passed - len(here)
    return Piece(_PASSED * passed, ITEM), Piece(here, BOLD), Piece(_AHEAD * ahead, DIM)


def _laid_out(rows: Sequence[_Row], columns: int) -> list[Line]:
    """Aligned, without the columns that there is no room for."""
    if not rows:
        return []
    names = [name for name in rows[0] if any(_width(row[name]) for row in rows)]
    for name in _FIRST_TO_GO:
        if _total(rows, names) <= columns:
            break
        names = [each for each in names if each != name]
    widths = {name: max(_width(row[name]) for row in rows) for name in names}
    excess = _total(rows, names) - columns
    if excess > 0:
        widths["label"] = max(min(_LEAST_LABEL, widths["label"]), widths["label"] - excess)
    return [_line(row, names, widths, columns) for row in rows]


def _line(row: _Row, names: Sequence[str], widths: dict[str, int], columns: int) -> Line:
    pieces: list[Piece] = []
    for name in names:
        wide = widths[name]
        cell = [Piece(cut_to(piece.text, wide), piece.style) for piece in row[name] if piece.text]
        pieces += [*([Piece(_GAP)] if pieces else []), *cell, Piece(" " * max(0, wide - _width(cell)))]
    return _fitted(pieces, columns, row["label"][0].text)


def _fitted(pieces: Sequence[Piece], columns: int, label: str = "") -> Line:
    """As much of the pieces as the columns take, without blanks at the end."""
    kept: list[Piece] = []
    left = columns
    for piece in pieces:
        text = cut_to(piece.text, left)
        left -= width(text)
        kept.append(Piece(text, piece.style))
        if text != piece.text:
            break
    while kept and not kept[-1].text.strip():
        kept.pop()
    return Line(tuple(piece for piece in kept if piece.text), label)


def _total(rows: Sequence[_Row], names: Sequence[str]) -> int:
    widths = [max(_width(row[name]) for row in rows) for name in names]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _width(pieces: Sequence[Piece]) -> int:
    return sum(width(piece.text) for piece in pieces)
