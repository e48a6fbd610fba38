"""Reports for people."""

from __future__ import annotations

from shelf.books import Shelf


def inventory(shelf: Shelf) -> str:
    return "\n".join(f"{book.isbn}  {book.title}" for book in shelf.all())
