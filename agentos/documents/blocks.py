"""Blocks of prose as data: tables, list items, and `Label: value` fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentos.documents.inline import code_spans, plain, words
from agentos.documents.lines import Line, LineKind

_DELIMITER_CELL = re.compile(r":?-+:?")
_ITEM = re.compile(r"([ \t]*)([-*+]|(\d{1,9})[.)])(?:[ \t]+(.*))?", re.DOTALL)
_CHECKBOX = re.compile(r"\[([ xX✓✔]?)\](?:[ \t]+|$)")
_FIELD = re.compile(
    r"[ \t]*(?:[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)?(?P<mark>[*_]{0,3})(?P<label>[A-Za-z][A-Za-z0-9 /_-]{0,40})"
    r"(?P=mark)[ \t]*:[ \t]*[*_]{0,3}[ \t]*(?P<value>.*)"
    r"|[ \t]*(?:[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)?(?P<mark2>[*_]{1,3})(?P<label2>[A-Za-z][A-Za-z0-9 /_-]{0,40}):"
    r"[ \t]*(?P=mark2)[ \t]*(?P<value2>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, cells as written but for padding and escaped pipes."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: every row has as many cells as the header, missing ones are empty."""

    line: int
    header: tuple[str, ...]
    rows: tuple[Row, ...]

    def column(self, *names: str) -> int | None:
        """The place of the first column whose heading, in plain lower-case words, is one of `names`."""
        headings = [" ".join(words(cell)) or plain(cell) for cell in self.header]
        return next((headings.index(name) for name in names if name in headings), None)


@dataclass(frozen=True, slots=True)
class ListItem:
    """A list item and its continuation lines. `checked` is None without a checkbox, `number` None in bullets."""

    line: int
    indent: int
    number: int | None
    checked: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """A `Label: value` line, however it is decorated."""

    line: int
    label: str
    value: str


def tables(lines: Sequence[Line]) -> list[Table]:
    """All tables, with or without outer pipes; piped rows without a delimiter row count as a table as well."""
    found: list[Table] = []
    index = 0
    while index < len(lines):
        length = _table_length(lines, index)
        if length:
            found.append(_read_table(lines[index : index + length]))
        index += max(length, 1)
    return found


def list_items(lines: Sequence[Line]) -> list[ListItem]:
    """All list items in order, nested ones too; lines that follow without a blank one belong to the item."""
    found: list[ListItem] = []
    texts: list[list[str]] = []
    is_open = False
    for line in lines:
        match = _ITEM.fullmatch(line.visible) if line.is_prose else None
        if match is not None and not is_ruler(line.visible):
            item, text = _read_item(line, match)
            found.append(item)
            texts.append([text])
            is_open = True
        elif line.is_prose and is_open and not line.visible.lstrip().startswith("|"):
            texts[-1].append(line.visible.strip())
        elif line.kind is not LineKind.COMMENT:
            is_open = False
    return [
        ListItem(item.line, item.indent, item.number, item.checked, " ".join(filter(None, text)).strip())
        for item, text in zip(found, texts, strict=True)
    ]


def fields(lines: Iterable[Line]) -> list[Field]:
    """All `Label: value` lines: bare, bold, in a bullet, and the rows of two-column tables."""
    return [field for line in lines if line.is_prose and (field := read_field(line.visible, line.number))]


def read_field(text: str, line: int = 0) -> Field | None:
    """A line as a field, or None when it has no label."""
    match = _FIELD.fullmatch(text)
    if match is not None:
        label, value = match["label"] or match["label2"], match["value"] if match["label"] else match["value2"]
        return Field(line, " ".join(label.casefold().split()), plain(value))
    cells = split_row(text) if text.lstrip().startswith("|") else []
    if len(cells) == 2 and not _is_delimiter(text):
        return Field(line, " ".join(words(cells[0])), plain(cells[1]))
    return None


def is_ruler(text: str) -> bool:
    """Whether a line is a thematic break (`---`, `* * *`)."""
    marks = text.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks[0] in "-*_" and marks == marks[0] * len(marks)


def split_row(text: str, *, code_hides_pipes: bool = True) -> list[str]:
    """A table row's cells. A pipe that is escaped, or (as people mean it) inside a code span, does not separate."""
    hidden = code_spans(text) if code_hides_pipes else []
    cells: list[str] = []
    start = 0
    spans = iter(hidden)
    span = next(spans, None)
    for pipe in re.finditer(r"\|", text):
        position = pipe.start()
        while span is not None and span[1] <= position:
            span = next(spans, None)
        if (span is not None and span[0] <= position) or (position and text[position - 1] == "\\"):
            continue
        cells.append(text[start:position])
        start = position + 1
    cells.append(text[start:])
    cells = [cell.strip().replace("\\|", "|") for cell in cells]
    if not cells[0] and len(cells) > 1:
        cells = cells[1:]
    return cells[:-1] if len(cells) > 1 and not cells[-1] and text.rstrip().endswith("|") else cells


def _table_length(lines: Sequence[Line], index: int) -> int:
    header = lines[index]
    if not header.is_prose or "|" not in header.visible or _is_delimiter(header.visible):
        return 0
    has_delimiter = index + 1 < len(lines) and _is_delimiter(lines[index + 1].visible)
    if not has_delimiter and not _is_piped(header.visible):
        return 0
    end = index + 1
    while end < len(lines) and _continues_table(lines[end], must_be_piped=not has_delimiter):
        end += 1
    return end - index if end > index + 1 else 0


def _continues_table(line: Line, *, must_be_piped: bool) -> bool:
    if line.kind is LineKind.COMMENT:
        return True
    return line.is_prose and (_is_piped(line.visible) if must_be_piped else "|" in line.visible)


def _is_piped(text: str) -> bool:
    stripped = text.strip()
    return len(stripped) > 2 and stripped[0] == "|" and stripped[-1] == "|"


def _is_delimiter(text: str) -> bool:
    if "-" not in text or "|" not in text or not set(text) <= set("|:- \t"):
        return False
    return all(_DELIMITER_CELL.fullmatch(cell) for cell in split_row(text))


def _read_table(lines: Sequence[Line]) -> Table:
    header = tuple(split_row(lines[0].visible))
    first = 2 if _is_delimiter(lines[1].visible) else 1
    rows = [Row(line.number, _fit(line.visible, len(header))) for line in lines[first:] if line.is_prose]
    return Table(lines[0].number, header, tuple(rows))


def _fit(text: str, width: int) -> tuple[str, ...]:
    cells = split_row(text)
    if len(cells) != width:
        strict = split_row(text, code_hides_pipes=False)
        cells = strict if len(strict) == width else cells
    if len(cells) > width:
        cells = [*cells[: width - 1], " | ".join(cells[width - 1 :])]
    return tuple(cells + [""] * (width - len(cells)))


def _read_item(line: Line, match: re.Match[str]) -> tuple[ListItem, str]:
    text = (match.group(4) or "").strip()
    box = _CHECKBOX.match(text)
    checked = None if box is None else box.group(1).strip() != ""
    number = int(match.group(3)) if match.group(3) else None
    indent = len(match.group(1).expandtabs(4))
    return ListItem(line.number, indent, number, checked, ""), text[box.end() :] if box else text
