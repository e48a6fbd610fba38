"""Which files a design says it changes, from tables and lists of several shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentos.documents.blocks import ListItem, Row, Table, list_items, tables
from agentos.documents.inline import code_texts, plain
from agentos.documents.lines import Line
from agentos.documents.markdown import Document, Section


class Change(StrEnum):
    ADD = "Add"
    MODIFY = "Modify"
    DELETE = "Delete"
    RENAME = "Rename"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a design. `target` is the new path of a renamed file."""

    path: str
    change: Change
    description: str
    line: int
    target: str | None = None

    @property
    def only_adds(self) -> bool:
        """Whether the file is to keep all it has: the design says what is added, and of no other change."""
        if self.change not in (Change.MODIFY, Change.UNKNOWN):
            return False
        if _CHANGING.search(self.description):
            return False
        is_list = self.path.replace("\\", "/").rpartition("/")[2].casefold() in _LISTS
        return is_list or _ADDING.search(self.description) is not None


_VERBS = {
    Change.ADD: "add|adds|added|new|create|creates|created",
    Change.MODIFY: "modify|modifies|modified|update|updates|updated|edit|edits|edited|change|changed|extend|existing",
    Change.DELETE: "delete|deletes|deleted|remove|removes|removed|drop|dropped",
    Change.RENAME: "rename|renames|renamed|move|moves|moved",
}
_CHANGE_OF_VERB = {verb: change for change, verbs in _VERBS.items() for verb in verbs.split("|")}
_CHANGING = re.compile(
    r"\b(?:modif|updat|edit|chang|delet|remov|drop|renam|mov|replac|rewrit|rewrot|refactor|restructur|fix|convert"
    r"|split|extract|wrap|sort|reorder|adapt|adjust|instead)\w*|\b(?:parameter|argument|method|field|default)s?\b",
    re.IGNORECASE,
)
_ADDING = re.compile(
    r"\b(?:append|export|re-?export|register)\w*"
    r"|\badd(?:s|ed|ing)?\b.*\b(?:entr(?:y|ies)|lines?|imports?|functions?|class(?:es)?|constants?|helpers?|tests?|cases?"
    r"|commands?|routes?|sections?|rows?)\b",
    re.IGNORECASE | re.DOTALL,
)
_LISTS = frozenset({"__init__.py", "__init__.pyi", "changelog.md", "requirements.txt", ".gitignore"})
"""Files that are lists by nature: who names one without another change in mind adds a line."""
_WORD = re.compile(r"[a-z]+")
_LABELLED = re.compile(r"[*_(\[]*([A-Za-z]+)[*_)\]]*\s*[:)\]]\s*[*_]*\s*|\(([A-Za-z]+)(?: files?)?\)\s*")
_SEPARATOR = re.compile(r"\s*(?:[—–:]|-(?=\s)|\|)\s*")
_ARROW = re.compile(r"\s*(?:→|->|=>|⟶)\s*")
_LONGEST_CELL = 2000
_LOOKS_LIKE_PATH = re.compile(r"[/\\]|\.\w{1,8}$|^[A-Z][A-Za-z]*file$")

_PATH_COLUMNS = ("file", "path", "files", "file path", "filename", "file name", "module", "location", "file s")
_CHANGE_COLUMNS = (
    "change type", "change", "type", "action", "operation", "status", "kind", "changes", "type of change",
)  # fmt: skip
_DESCRIPTION_COLUMNS = ("description", "purpose", "details", "notes", "what", "reason", "summary", "why", "change")


def file_changes(document: Document, sections: Sequence[Section]) -> tuple[FileChange, ...]:
    """The files named in the given sections: rows of tables, else items of lists."""
    found: list[FileChange] = []
    for section in sections:
        for part in document.tree(section):
            lines = document.own_lines(part)
            default = _change_of_heading(part.heading)
            rows = list(_from_tables(lines, default))
            found += rows or _from_items(lines, default)
    return tuple(found)


def read_change(text: str) -> Change:
    """The change a word or phrase names (`Add`, `NEW`, `Modified`, `Add (directory)`); UNKNOWN when none."""
    verbs = _WORD.findall(plain(text).casefold())
    return next((_CHANGE_OF_VERB[verb] for verb in verbs if verb in _CHANGE_OF_VERB), Change.UNKNOWN)


def is_file_table(table: Table) -> bool:
    """Whether a table lists files: a column of paths, and one that says what changes."""
    return table.column(*_PATH_COLUMNS) is not None and len(table.header) >= 2


def _change_of_heading(heading: str) -> Change:
    changes = {_CHANGE_OF_VERB[verb] for verb in _WORD.findall(heading.casefold()) if verb in _CHANGE_OF_VERB}
    return changes.pop() if len(changes) == 1 and "changed" not in heading.casefold() else Change.UNKNOWN


def _from_tables(lines: Sequence[Line], default: Change) -> Iterator[FileChange]:
    for table in tables(lines):
        columns = _columns(table)
        if columns is not None:
            for row in table.rows:
                yield from _from_row(columns, row, default)


@dataclass(frozen=True, slots=True)
class _Columns:
    path: int
    change: int | None
    description: int | None


def _columns(table: Table) -> _Columns | None:
    """Where a table of files has what; None when it lists no files."""
    path = table.column(*_PATH_COLUMNS)
    if path is None or not is_file_table(table):
        return None
    change, description = table.column(*_CHANGE_COLUMNS), table.column(*_DESCRIPTION_COLUMNS)
    if description == change:
        others = [index for index in range(len(table.header)) if index not in {path, change}]
        description = others[0] if others else change
    return _Columns(path, change, description)


def _from_row(columns: _Columns, row: Row, default: Change) -> Iterator[FileChange]:
    change = Change.UNKNOWN if columns.change is None else read_change(row.cells[columns.change])
    description = "" if columns.description is None else plain(row.cells[columns.description])
    yield from _changes(
        row.cells[columns.path], default if change is Change.UNKNOWN else change, description, row.line
    )


def _from_items(lines: Sequence[Line], default: Change) -> list[FileChange]:
    found: list[FileChange] = []
    for item in list_items(lines):
        found += _from_item(item, default)
    return found


def _from_item(item: ListItem, default: Change) -> Iterator[FileChange]:
    """``- `path` — New coordinator``, ``- **Add:** `path` - text``, ``- path (new): text``."""
    text = item.text
    change = default
    label = _LABELLED.match(text)
    if label is not None and read_change(label.group(0)) is not Change.UNKNOWN:
        change, text = read_change(label.group(0)), text[label.end() :]
    else:
        verb = re.match(r"[*_]*([A-Za-z]+)[*_]*\s+(?=`)", text)
        if verb is not None and read_change(verb.group(1)) is not Change.UNKNOWN:
            change, text = read_change(verb.group(1)), text[verb.end() :]
    head, rest = _split_path(text)
    if head == "":
        return
    described = rest
    note = re.match(r"\s*[*_]*\(([^()]*)\)[*_]*", rest)
    if note is not None and read_change(note.group(1)) is not Change.UNKNOWN:
        change, described = read_change(note.group(1)), rest[note.end() :]
    described = _SEPARATOR.sub("", described, count=1) if _SEPARATOR.match(described) else described.strip()
    if change is Change.UNKNOWN:
        change = _change_of_description(described)
    yield from _changes(head, change, plain(described), item.line)


def _change_of_description(text: str) -> Change:
    """Only words that leave no doubt: `Add a flag` may well be a change to a file that exists."""
    first = _WORD.match(plain(text).casefold())
    change = _CHANGE_OF_VERB.get(first.group(), Change.UNKNOWN) if first else Change.UNKNOWN
    if change is Change.ADD and first is not None and first.group().startswith("add"):
        return Change.UNKNOWN
    return change


def _split_path(text: str) -> tuple[str, str]:
    """The leading path of a list item (with a second one after an arrow), and the text behind it."""
    ticked = re.match(r"[*_]*(`+)(?!`)(.+?)(?<!`)\1(?!`)[*_]*", text, re.DOTALL)
    if ticked is not None:
        rest = text[ticked.end() :]
        arrow = _ARROW.match(rest)
        if arrow is None:
            return ticked.group(0), rest
        second, after = _split_path(rest[arrow.end() :])
        return f"{ticked.group(0)} → {second}", after
    bare = re.match(r"\S+", text.lstrip("*"))
    if bare is None:
        return "", text
    word = bare.group().strip("*").rstrip(":,")
    return (word, text.lstrip("*")[bare.end() :]) if _LOOKS_LIKE_PATH.search(word) else ("", text)


def _changes(cell: str, change: Change, description: str, line: int) -> Iterator[FileChange]:
    """A cell may hold one path, several, or an old and a new one."""
    halves = _ARROW.split(cell, maxsplit=1)
    if len(halves) == 2:
        old, new = (_paths(half) for half in halves)
        if old and new:
            renamed = Change.RENAME if change is Change.UNKNOWN else change
            yield FileChange(old[0], renamed, description, line, new[0])
            return
    for path in _paths(cell):
        yield FileChange(path, change, description, line)


def _paths(cell: str) -> list[str]:
    cell = cell[:_LONGEST_CELL]
    ticked = [text for text in code_texts(cell) if text]
    if ticked:
        return ticked
    text = re.sub(r"\[([^\[\]]*)\]\([^()\s]*\)", r"\1", cell).strip().strip("*").strip()
    text = re.sub(r"\s+\([^()]*\)$", "", text)
    parts = [part.strip() for part in re.split(r",\s+|<br\s*/?>", text)]
    return [part.replace("\\_", "_").replace("\\*", "*") for part in parts if part and part.strip(".-—–…") != ""]
