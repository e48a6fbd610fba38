"""Ids and globs of a command line."""

from __future__ import annotations

from agentos.text import globs


def test_an_id_that_looks_like_a_glob_names_itself_only() -> None:
    assert globs.matches("a[1]", {"a[1]", "a1"}) == ["a[1]"]
    assert globs.matches("a[1]", {"a1"}) == ["a1"]


def test_what_is_named_twice_is_chosen_once_in_the_order_named() -> None:
    assert globs.chosen(["c", "a*", "c", "ab"], ["ab", "aa", "c"]) == (["c", "aa", "ab"], [])


def test_patterns_that_name_nothing_are_told_once() -> None:
    assert globs.chosen(["x", "a", "x", "y*"], ["a"]) == (["a"], ["x", "y*"])
