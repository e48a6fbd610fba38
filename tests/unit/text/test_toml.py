"""TOML that people edit: whatever they save, there is one line that says what is wrong."""

from __future__ import annotations

import pytest

from agentos.text.toml import MOST_CHARACTERS, NotToml, parse_toml


def test_a_document_is_read() -> None:
    assert parse_toml("[a]\nb = 1\n") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a = ", "Invalid value", "end of document"),
        ("a = 1\nb = ]", "Invalid value", "line 2, column 5"),
        (f"a = {'9' * 5_000}", "too many digits", ""),
        (f"a = {'[' * 5_000}{']' * 5_000}", "nested too deeply", ""),
        ("#" * (MOST_CHARACTERS + 1), "more than 1,000,000 characters", ""),
    ],
    ids=["cut off", "wrong", "digits", "deep", "huge"],
)
def test_anything_else_is_said_in_one_line(text: str, message: str, place: str) -> None:
    with pytest.raises(NotToml, match=message) as caught:
        parse_toml(text)
    assert "\n" not in str(caught.value)
    assert caught.value.place == place
