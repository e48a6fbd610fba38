"""Loans: who has which book, until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

LOAN_DAYS = 14


@dataclass(frozen=True)
class Loan:
    isbn: str
    reader: str
    due: date


class Loans:
    """Open loans, one per book."""

    def __init__(self) -> None:
        self._open: dict[str, Loan] = {}

    def lend(self, isbn: str, reader: str, today: date) -> Loan:
        loan = Loan(isbn, reader, today + timedelta(days=LOAN_DAYS))
        self._open[isbn] = loan
        return loan

    def bring_back(self, isbn: str) -> None:
        self._open.pop(isbn, None)

    def open_loans(self) -> list[Loan]:
        return sorted(self._open.values(), key=lambda loan: (loan.due, loan.isbn))
