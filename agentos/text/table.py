"""Tables for people: aligned columns, no wider than the window. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentos.text.window import UNLIMITED_COLUMNS

Row = Sequence[str]
_GAP: Final = "  "
_LEAST_READABLE: Final = 12


def table_lines(
    rows: Sequence[Row], columns: int = UNLIMITED_COLUMNS, *, expendable: Sequence[str] = ()
) -> list[str]:
    """Rows, headings first, as lines.

    A window too narrow costs the end of the last column first, then `expendable` columns, the first named first, then
    the ends of lines. What stands in the first column stays whole, for people copy it: a terminal may wrap it.
    """
    kept = _without_expendable(rows, columns, expendable)
    widths = _widths(kept)
    return [_line(row, widths, columns) for row in kept]


def _line(row: Row, widths: Sequence[int], columns: int) -> str:
    line = _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    name = row[0]
    return name if columns <= len(name) + 1 and columns < len(line) else cut(line, columns)


def narrowed(rows: Sequence[Row], columns: int, expendable: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows, headings first, that fit the window whatever it takes: at last names in the first column are cut."""
    kept = _without_expendable(rows, columns, expendable)
    excess = _excess(kept, columns)
    longest_name = max(_LEAST_READABLE, _widths(kept)[0] - excess) if excess > 0 else UNLIMITED_COLUMNS
    return [(cut(row[0], longest_name), *row[1:]) for row in kept]


def _without_expendable(rows: Sequence[Row], columns: int, expendable: Sequence[str]) -> list[tuple[str, ...]]:
    """The last column is cut as long as something of it is left to read; then columns go."""
    kept = [tuple(row) for row in rows]
    if not expendable:
        return kept
    for heading in (None, *expendable):
        if heading is not None:
            kept = [_without(row, kept[0].index(heading)) for row in kept]
        excess = _excess(kept, columns)
        last = _widths(kept)[-1]
        if excess <= 0:
            return kept
        if len(kept[0]) > 1 and last - excess >= _LEAST_READABLE:
            return [(*row[:-1], cut(row[-1], last - excess)) for row in kept]
    return kept


def cut(text: str, longest: int) -> str:
    """The text, its end replaced by an ellipsis when it is too long."""
    return text if len(text) <= longest else text[: max(0, longest - 1)] + "…"


def _without(row: tuple[str, ...], place: int) -> tuple[str, ...]:
    return row[:place] + row[place + 1 :]


def _excess(rows: Sequence[Row], columns: int) -> int:
    widths = _widths(rows)
    return sum(widths) + len(_GAP) * (len(widths) - 1) - columns


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
