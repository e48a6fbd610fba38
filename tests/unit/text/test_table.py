"""Tables fit the window, and lose first what a reader misses least."""

from __future__ import annotations

import pytest

from agentos.text.table import cut, narrowed, table_lines

ROWS = [("NAME", "SIZE", "NOTE"), ("a", "10 MB", "a note of some length"), ("a-longer-name", "", "")]


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    assert table_lines(ROWS) == [
        "NAME           SIZE   NOTE",
        "a              10 MB  a note of some length",
        "a-longer-name",
    ]


def test_without_expendable_columns_each_line_is_cut() -> None:
    assert table_lines(ROWS, 16) == ["NAME           …", "a              …", "a-longer-name"]


def test_the_last_column_is_cut_before_an_expendable_one_goes_and_names_go_last() -> None:
    assert table_lines(ROWS, 36, expendable=("SIZE",))[1] == "a              10 MB  a note of som…"
    assert table_lines(ROWS, 28, expendable=("SIZE",))[1] == "a              a note of so…"
    assert narrowed([("A", "B")], 1, ("B",)) == [("A",)]


@pytest.mark.parametrize("columns", range(1, 60))
def test_no_line_is_wider_than_the_window_unless_it_is_a_name_to_copy(columns: int) -> None:
    lines = table_lines(ROWS, columns, expendable=("SIZE", "NOTE"))
    assert all(len(line) <= columns or line == name for line, (name, *_) in zip(lines, ROWS, strict=True))
    assert all(line.startswith(name) for line, (name, *_) in zip(lines, ROWS, strict=True))
    assert all(len(row[0]) <= max(columns, 12) for row in narrowed(ROWS, columns, ("SIZE", "NOTE")))


def test_what_is_cut_shows_it() -> None:
    assert (cut("abc", 3), cut("abcd", 3)) == ("abc", "ab…")
