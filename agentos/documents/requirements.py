"""Requirements: numbered, bulleted, labelled (`R1:`, `REQ-1`), in tables or as headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentos.documents.blocks import ListItem, Table, list_items, tables
from agentos.documents.inline import plain
from agentos.documents.lines import Line
from agentos.documents.markdown import Document, Section, title_key


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement. `id` is its number (`R1`, `REQ-01` and `1.` are all `1`; `NFR-2` keeps its kind)."""

    id: str
    text: str
    line: int
    group: str = ""
    """The subsection it stands in, if any."""


_PREFIXES = r"(?:REQUIREMENT|REQ|FR|NFR|AC|SR|R)"
_LABEL = re.compile(
    rf"[*_\[(]*(?P<id>{_PREFIXES}[-_ #.]?\d+(?:\.\d+)*)[*_\])]*[ \t]*"
    r"(?:[:.)]|[-–—](?=\s))?[*_]*[ \t]*(?:[:–—-]\s+)?(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_ID = re.compile(rf"(?P<kind>{_PREFIXES})?[-_ #.]*0*(?P<number>\d+(?:\.\d+)*)", re.IGNORECASE)
_INLINE_REFERENCE = re.compile(r"\b(?:REQUIREMENTS?|REQ|FR|NFR|AC|R)[-_ #]{0,2}\d+(?:\.\d+)*", re.IGNORECASE)
_RANGE = re.compile(
    rf"(?P<kind>{_PREFIXES})?[-_ #.]*0*(?P<first>\d{{1,4}})\s*(?:-|–|—|\.\.|to|through)\s*"
    rf"(?:{_PREFIXES})?[-_ #.]*0*(?P<last>\d{{1,4}})(?![\d.])",
    re.IGNORECASE,
)
_ID_COLUMNS = ("id", "#", "req", "no", "nr", "number", "req id", "requirement id", "ref")
_TEXT_COLUMNS = (
    "requirement", "requirements", "description", "text", "statement", "acceptance criterion", "criteria",
)  # fmt: skip
_LARGEST_RANGE = 200
_LONGEST_CELL = 2000


def requirements(document: Document, sections: Sequence[Section]) -> tuple[Requirement, ...]:
    """The requirements of the given sections and their subsections, with ids that are unique."""
    found: list[Requirement] = []
    for section in sections:
        for part in document.tree(section):
            group = "" if part is section else part.title
            labelled = _LABEL.fullmatch(plain(part.heading)) if group else None
            if labelled is not None:
                found.append(_from_heading(document, part, labelled))
            else:
                found += [replace(one, group=group) for one in _in_lines(document.own_lines(part))]
    return tuple(_with_unique_ids(found))


def normal_id(text: str) -> str | None:
    """The id that a label, cell or reference names, or None: `REQ-01` → `1`, `NFR-2` → `NFR-2`."""
    match = _ID.match(plain(text))
    if match is None:
        return None
    kind = (match["kind"] or "").upper()
    return match["number"] if kind in {"", "R", "REQ", "REQUIREMENT"} else f"{kind}-{match['number']}"


def references(text: str, *, bare_numbers: bool) -> tuple[str, ...]:
    """The requirement ids a text refers to, ranges spelled out. Bare numbers count where nothing else can stand."""
    text = plain(text)[:_LONGEST_CELL]
    found: list[str] = []
    if bare_numbers:
        for match in _RANGE.finditer(text):
            found += _spelled_out(match)
        text = _RANGE.sub(" ", text)
        tokens = [match.group() for match in _ID.finditer(text)]
    else:
        tokens = [match.group() for match in _INLINE_REFERENCE.finditer(text)]
    found += [identifier for token in tokens if (identifier := normal_id(token)) is not None]
    return tuple(dict.fromkeys(found))


def _spelled_out(match: re.Match[str]) -> list[str]:
    first, last = int(match["first"]), int(match["last"])
    if not first <= last <= first + _LARGEST_RANGE:
        return [identifier for identifier in (normal_id(match["first"]), normal_id(match["last"])) if identifier]
    kind = match["kind"] or ""
    return [identifier for number in range(first, last + 1) if (identifier := normal_id(f"{kind}-{number}"))]


def _from_heading(document: Document, section: Section, labelled: re.Match[str]) -> Requirement:
    body = " ".join(line.visible.strip() for line in document.own_lines(section) if line.is_prose)
    text = ". ".join(filter(None, (labelled["text"].strip().rstrip("."), plain(body))))
    return Requirement(normal_id(labelled["id"]) or "", text, section.line)


def _in_lines(lines: Sequence[Line]) -> list[Requirement]:
    """A table of requirements, else labelled items, else numbered ones, else bullets; nested items only explain."""
    for table in tables(lines):
        rows = _from_table(table)
        if rows:
            return rows
    items = _outermost(list_items(lines))
    numbered = [item for item in items if item.number is not None]
    labelled = [item for item in items if _LABEL.fullmatch(item.text)]
    if labelled:
        return [_from_item(item, index) for index, item in enumerate(labelled, start=1)]
    if numbered:
        return _from_numbered(numbered)
    if items:
        return [_from_item(item, index) for index, item in enumerate(items, start=1)]
    return _from_paragraphs(lines)


def _outermost(items: list[ListItem]) -> list[ListItem]:
    if not items:
        return []
    outermost = min(item.indent for item in items)
    # A list that is one space off is the same list: two are needed to nest.
    return [item for item in items if item.indent < outermost + 2 and item.text]


def _from_table(table: Table) -> list[Requirement]:
    text_column = table.column(*_TEXT_COLUMNS)
    id_column = table.column(*_ID_COLUMNS)
    if text_column is None or text_column == id_column:
        return []
    found: list[Requirement] = []
    for index, row in enumerate(table.rows, start=1):
        text = plain(row.cells[text_column])
        identifier = normal_id(row.cells[id_column]) if id_column is not None else None
        if identifier is None:
            match = _LABEL.fullmatch(text)
            identifier, text = (normal_id(match["id"]), match["text"]) if match else (str(index), text)
        if text:
            found.append(Requirement(identifier or str(index), text, row.line))
    return found


def _from_numbered(items: list[ListItem]) -> list[Requirement]:
    numbers = [item.number for item in items]
    # `1. 1. 1.` is how some write a list that counts itself.
    counts_itself = len(set(numbers)) < len(numbers)
    first = numbers[0] or 0
    return [
        Requirement(str(first + index if counts_itself else item.number), plain(item.text), item.line)
        for index, item in enumerate(items)
    ]


def _from_item(item: ListItem, index: int) -> Requirement:
    match = _LABEL.fullmatch(item.text)
    if match is None:
        return Requirement(str(index), plain(item.text), item.line)
    return Requirement(normal_id(match["id"]) or str(index), plain(match["text"]), item.line)


def _from_paragraphs(lines: Sequence[Line]) -> list[Requirement]:
    matches = [(line, match) for line in lines if line.is_prose and (match := _LABEL.fullmatch(line.visible.strip()))]
    return [
        Requirement(normal_id(match["id"]) or str(index), plain(match["text"]), line.number)
        for index, (line, match) in enumerate(matches, start=1)
    ]


def _with_unique_ids(found: list[Requirement]) -> list[Requirement]:
    """Groups that each count from 1 get the group's place in front: `2.1` is the first of the second group."""
    if max(Counter(one.id for one in found).values(), default=0) < 2 or len({one.group for one in found}) < 2:
        return found
    places = {
        group: place for place, group in enumerate(dict.fromkeys(title_key(one.group) for one in found), start=1)
    }
    return [replace(one, id=f"{places[title_key(one.group)]}.{one.id}") for one in found]
