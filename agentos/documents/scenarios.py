"""Test scenarios and the requirements they cover, from tables or lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentos.documents.blocks import ListItem, Row, Table, list_items, read_field, tables
from agentos.documents.inline import plain, words
from agentos.documents.markdown import Document, Section
from agentos.documents.requirements import references

EVERYTHING = "*"
"""A reference that stands for all requirements."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `columns` keeps every cell under its heading as written, also those without their own field."""

    id: str
    scenario: str
    line: int
    type: str = ""
    input: str = ""
    expected: str = ""
    pass_criteria: str = ""
    requirements: tuple[str, ...] = ()
    """Ids of the requirements it says it covers."""
    columns: Mapping[str, str] = field(default_factory=dict)


_NAMES = {
    "id": "id|#|no|nr|test id|scenario id|case id|test|tc|test #|number",
    "scenario": "scenario|test scenario|description|test description|test case|case|name|test name|title|what|test",
    "type": "type|kind|test type|level",
    "input": "input|inputs|given|setup|input setup|steps|when|action",
    "expected": "expected output|expected|expected result|expected results|expected behavior|expected behaviour"
    "|expected outcome|output|result|then",
    "pass_criteria": "pass criteria|criteria|pass criterion|passes when|pass|assertion|pass fail criteria",
    "requirements": "requirement|requirements|req|reqs|requirement s|req s|req id|requirement id|requirement ids"
    "|covers|requirement covered|requirements covered|traces to|req ref|req #|requirement #|validates|traceability",
}
_COLUMNS: Mapping[str, tuple[str, ...]] = {name: tuple(names.split("|")) for name, names in _NAMES.items()}
_ITEM_ID = re.compile(
    r"[*_`\[(]*(?P<id>(?:test|tc|ts|scenario|case|s|t)?[-_ #]?\d[\w.-]*)[*_`\])]*\s*[:.)|–—-]*[*_]*\s*(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)


def scenarios(document: Document, sections: Sequence[Section]) -> tuple[Scenario, ...]:
    """The scenarios of the given sections: rows of tables, else items of lists."""
    parts = [part for section in sections for part in document.tree(section)]
    all_tables = [table for part in parts for table in tables(document.own_lines(part)) if is_scenario_table(table)]
    if all_tables:
        return tuple(one for table in all_tables for one in _from_table(table))
    return tuple(one for part in parts for one in _from_items(list_items(document.own_lines(part))))


def is_scenario_table(table: Table) -> bool:
    """Whether a table lists scenarios: what happens, and what is expected, typed or identified."""
    places = _places(table)
    return "scenario" in places and bool({"expected", "pass_criteria", "id", "input"} & set(places))


def names_requirements(table: Table) -> bool:
    """Whether a table has a column for the requirement a scenario covers."""
    return "requirements" in _places(table)


def _places(table: Table) -> dict[str, int]:
    """Where each field's column is; a column serves one field only."""
    places: dict[str, int] = {}
    for name in ("scenario", "id", "type", "input", "expected", "pass_criteria", "requirements"):
        place = table.column(*_COLUMNS[name])
        if place is not None and place not in places.values():
            places[name] = place
    return places


def _from_table(table: Table) -> Iterator[Scenario]:
    places = _places(table)
    for row in table.rows:
        if any(row.cells):
            yield _from_row(table, places, row)


def _from_row(table: Table, places: Mapping[str, int], row: Row) -> Scenario:
    cells = {name: plain(row.cells[place]) for name, place in places.items()}
    columns = {heading: cell for heading, cell in zip(table.header, row.cells, strict=True) if heading}
    cell = cells.pop("requirements", None)
    covered = references(" ".join(row.cells), bare_numbers=False) if cell is None else _covered(cell)
    identifier, text = cells.pop("id", ""), cells.pop("scenario")
    return Scenario(identifier, text, row.line, requirements=covered, columns=columns, **cells)


def _covered(cell: str) -> tuple[str, ...]:
    """The requirements a cell names; `All` is EVERYTHING."""
    return (EVERYTHING,) if cell.strip().casefold() in {"all", "*"} else references(cell, bare_numbers=True)


def _from_items(items: list[ListItem]) -> list[Scenario]:
    """``- **010**: text`` with its fields as nested items, or as cells behind pipes."""
    if not items:
        return []
    outermost = min(item.indent for item in items)
    found: list[Scenario] = []
    nested: list[ListItem] = []
    for item in reversed(items):
        if item.indent >= outermost + 2:
            nested.append(item)
            continue
        match = _ITEM_ID.fullmatch(item.text)
        if match is not None:
            found.append(_from_item(item, match, nested))
        elif item.number is not None:
            found.append(_from_item(item, None, nested))
        nested = []
    return found[::-1]


def _from_item(item: ListItem, match: re.Match[str] | None, nested: list[ListItem]) -> Scenario:
    identifier, text = (plain(match["id"]), match["text"]) if match else (str(item.number), item.text)
    cells = [plain(cell) for cell in text.split(" | ")]
    named = dict(zip(("scenario", "type", "input", "expected", "pass_criteria"), cells, strict=False))
    columns: dict[str, str] = {}
    covered = references(text, bare_numbers=False)
    for detail in reversed(nested):
        read = read_field(detail.text)
        if read is None:
            continue
        columns[read.label] = read.value
        name = next((name for name, names in _COLUMNS.items() if " ".join(words(read.label)) in names), None)
        if name == "requirements":
            covered = _covered(read.value)
        elif name is not None and name != "id":
            named[name] = read.value
    return Scenario(id=identifier, line=item.line, requirements=covered, columns=columns, **named)
