"""Books and the shelf they stand on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Book:
    """One book. The ISBN tells books apart."""

    isbn: str
    title: str
    author: str = ""


class Shelf:
    """All books, by ISBN."""

    def __init__(self) -> None:
        self._books: dict[str, Book] = {}

    def add(self, book: Book) -> None:
        self._books[book.isbn] = book

    def get(self, isbn: str) -> Book:
        return self._books[isbn]

    def all(self) -> list[Book]:
        return sorted(self._books.values(), key=lambda book: book.isbn)
