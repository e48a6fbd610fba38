"""How many columns a text takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.text.width import cut_to, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("設計", 4),
        ("ｱ", 1),
        ("🎉", 2),
        ("❤\ufe0f", 2),
        ("a\u200bb", 2),
    ],
)
def test_wide_characters_take_two_columns_and_combining_ones_none(text: str, columns: int) -> None:
    assert width(text) == columns


def test_what_is_too_wide_ends_in_an_ellipsis() -> None:
    assert cut_to("設計書", 6) == "設計書"
    assert cut_to("設計書", 5) == "設計…"
    assert cut_to("設計書", 4) == "設…"
    assert cut_to("abc", 1) == "…"
    assert cut_to("abc", 0) == ""


@given(st.text(), st.integers(0, 40))
def test_a_cut_text_is_never_wider_than_asked(text: str, columns: int) -> None:
    assert width(cut_to(text, columns)) <= columns
