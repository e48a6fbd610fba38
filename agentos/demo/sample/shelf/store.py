"""Reads and writes a shelf as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from shelf.books import Book, Shelf


def save(shelf: Shelf, path: Path) -> None:
    path.write_text(json.dumps([vars(book) for book in shelf.all()], indent=1))


def load(path: Path) -> Shelf:
    shelf = Shelf()
    for record in json.loads(path.read_text()):
        shelf.add(Book(**record))
    return shelf
