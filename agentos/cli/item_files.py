"""Items from what users have: JSON Lines, a JSON array, CSV, a folder of files, plain lines, standard input."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.engine.plan import Item, parse_items, strict_json
from agentos.errors import UsageError

ITEM_FIELDS = ("id", "priority", "depends_on")


@dataclass(frozen=True, slots=True)
class ItemText:
    """What `--items` names: text, or a folder of files."""

    name: str
    text: str = ""

    @property
    def piped(self) -> str:
        """What nobody can read a second time."""
        return self.text if self.name == "-" else ""


def read_item_text(name: str) -> ItemText:
    """Raises UsageError for what cannot be read, or is not text."""
    return ItemText(name) if name != "-" and Path(name).is_dir() else ItemText(name, _read_text(name))


def read_items(given: ItemText, input_key: str | None = None) -> list[Item]:
    """The items of that text or folder. With an input key each line, element or file is text for that key.

    Raises UsageError that says where something is wrong.
    """
    name, text, path = given.name, given.text, Path(given.name)
    if name != "-" and path.is_dir():
        lines: Iterator[str] = _from_folder(path, input_key)
    else:
        source = "standard input" if name == "-" else path.name
        lines = _item_lines(text, source, input_key, suffix="" if name == "-" else path.suffix.lower())
    source = "standard input" if name == "-" else os.path.basename(name)  # noqa: PTH119  Any string is fine here.
    items = parse_items(lines, source)
    if not items:
        raise UsageError(f"--items {name!r}: no items in it. Each line is an object with an id.")
    return items


def _read_text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--items {name!r}: {error.strerror}.") from None
    source = "standard input" if name == "-" else os.path.basename(name)  # noqa: PTH119  Any string is fine here.
    return _decoded(data, source)


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{source}, line {line}: not UTF-8 text.") from None


def _item_lines(text: str, source: str, input_key: str | None, suffix: str) -> Iterator[str]:
    if suffix == ".csv":
        if input_key is not None:
            raise UsageError(f"{source}: --input-key is not for CSV; its columns are the keys of the input.")
        return _from_csv(text, source)
    if suffix == ".json" or (not suffix and text.lstrip()[:1] == "["):
        return _from_array(text, source, input_key)
    # Not `splitlines`: a JSON string may hold a line separator of Unicode as it is.
    lines = re.split("\r\n|\n|\r", text)
    return iter(lines) if input_key is None else _numbered((line for line in lines if line.strip()), input_key)


def _from_array(text: str, source: str, input_key: str | None) -> Iterator[str]:
    """One line per element, so that what is wrong is told by its place."""
    try:
        elements = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not valid JSON ({error}).") from None
    if not isinstance(elements, list):
        raise UsageError(f"{source}: expected a JSON array of items. For one object per line, name it .jsonl.")
    return (json.dumps(each) for each in elements) if input_key is None else _numbered(iter(elements), input_key)


def _from_csv(text: str, source: str) -> Iterator[str]:
    """Columns `id`, `priority` and `depends_on` (ids with spaces between) are the item's; others are its input."""
    import csv  # noqa: PLC0415  Few items come this way.

    rows = csv.DictReader(io.StringIO(text, newline=""))
    columns = rows.fieldnames or []
    if len(set(columns)) < len(columns):
        raise UsageError(f"{source}, line 1: a column is there twice.")
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise UsageError(f"{source}, line {rows.line_num}: {len(columns)} columns expected, as in line 1.")
        item: dict[str, Any] = {"id": row.get("id") or str(number)}
        if row.get("priority"):
            item["priority"] = _whole(row["priority"], f"{source}, line {rows.line_num}")
        if row.get("depends_on"):
            item["depends_on"] = row["depends_on"].split()
        yield json.dumps({**item, "input": {name: value for name, value in row.items() if name not in ITEM_FIELDS}})


def _whole(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{where}: priority must be a whole number, got {text!r}.") from None


def _from_folder(folder: Path, input_key: str | None) -> Iterator[str]:
    """One item per file, by its name; hidden files and folders are not looked at."""
    if input_key is None:
        raise UsageError(f"--items {str(folder)!r} is a folder: say which key takes a file's text, --input-key text.")
    taken: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        item_id = re.sub(r"[^a-zA-Z0-9_-]+", "-", path.stem).strip("-") or "file"
        if taken.setdefault(item_id, path.name) != path.name:
            raise UsageError(
                f"{folder}: {taken[item_id]} and {path.name} would both be item {item_id!r}. Rename one."
            )
        try:
            text = _decoded(path.read_bytes(), path.name)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}.") from None
        yield json.dumps({"id": item_id, "input": {input_key: text}})
    if not taken:
        raise UsageError(f"--items {str(folder)!r}: no files in it. Those of its folders are not looked at.")


def _numbered(values: Iterator[Any], input_key: str) -> Iterator[str]:
    for number, value in enumerate(values, start=1):
        yield json.dumps({"id": str(number), "input": {input_key: value}})
