"""Words that promise nothing: vague criteria and text that was never filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentos.documents.blocks import list_items, tables
from agentos.documents.inline import mask_code
from agentos.documents.lines import Line, LineKind

_VAGUE = re.compile(
    r"\bwork(?:s|ing)? (?:correctly|properly|well|fine|as (?:expected|intended|designed))\b"
    r"|\bas (?:expected|intended)\b|\bproperly\b|(?<![/\w.])etc\b(?!/)\.?|\band so on\b|\bshould work\b"
    r"|\buser[- ]friendly\b|\breasonabl[ey]\b|\bfast enough\b|\bgood performance\b|\bif (?:possible|needed)\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\b(?:correctly|appropriate(?:ly)?|adequate(?:ly)?|sufficient(?:ly)?|seamless(?:ly)?|intuitive(?:ly)?)\b",
    re.IGNORECASE,
)
_MARK = re.compile(r"\b(?:TODO|TBD|TBC|FIXME|XXX)\b")
_STANDING_ALONE = re.compile(r"(?:^|[|:([>–—-])[\s*_]*(?:TODO|TBD|TBC|FIXME|XXX)\b")
_BRACES = re.compile(r"(?<![\w$/_.=-])\{+[A-Za-z][\w /.:'-]{0,60}\}+(?![\w/_.=-])")
_INSERT = re.compile(
    r"<(?:your|insert|describe|fill|placeholder)\b[^<>]{0,80}>"
    r"|\[(?:your|insert|describe|fill in|placeholder|to be)\b[^\[\]]{0,80}\](?!\()",
    re.IGNORECASE,
)
_LOREM = re.compile(r"\blorem ipsum\b", re.IGNORECASE)
_ELLIPSIS = frozenset({"...", "…", "....", ".."})


@dataclass(frozen=True, slots=True)
class Vague:
    """A vague phrase. `is_plain` when nothing else could be meant."""

    phrase: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Text left to be filled in. `is_certain` is False where the word may be part of a sentence."""

    line: int
    text: str
    is_certain: bool


def vague_phrase(text: str) -> Vague | None:
    """The first phrase of a criterion that nobody could check."""
    match = _VAGUE.search(text)
    if match is not None:
        return Vague(match.group(), True)
    match = _WEAK.search(text)
    return Vague(match.group(), False) if match else None


def placeholders(lines: Sequence[Line]) -> Iterator[Placeholder]:
    """Everything in the given lines that waits to be filled in; code and comments do not count."""
    for line in lines:
        if line.kind in {LineKind.TEXT, LineKind.HEADING}:
            yield from _in_line(line)
    yield from _ellipses(lines)


def _in_line(line: Line) -> Iterator[Placeholder]:
    text = mask_code(line.visible)
    mark = _MARK.search(text)
    if mark is not None:
        yield Placeholder(line.number, mark.group(), _STANDING_ALONE.search(text) is not None)
    for pattern in (_BRACES, _INSERT, _LOREM):
        match = pattern.search(text)
        if match is not None:
            yield Placeholder(line.number, match.group(), True)


def _ellipses(lines: Sequence[Line]) -> Iterator[Placeholder]:
    for table in tables(lines):
        for row in table.rows:
            cells = {cell.strip("`* ") for cell in row.cells} - {"", "-"}
            if cells and cells <= _ELLIPSIS:
                yield Placeholder(row.line, "...", True)
    for item in list_items(lines):
        if item.text in _ELLIPSIS:
            yield Placeholder(item.line, "...", True)
