"""Mistakes in changed lines."""

from __future__ import annotations

import pytest

from agentos.workflows.implementation.mutation import may_read_source, mutants, rewritten

SOURCE = '''"""Doc."""


def grade(points):
    """Doc."""
    if points >= 50:
        return "pass"
    raise ValueError("too few")
'''


def test_mistakes_are_made_in_changed_lines_only_the_strongest_first() -> None:
    found = mutants("a.py", SOURCE, range(1, 9), 4)
    assert [(each.line, each.what) for each in found] == [
        (7, "returns nothing"),
        (8, "no longer raises"),
        (6, "takes the other branch"),
        (6, "has another operator"),
    ]
    assert "return None" in found[0].source
    assert "points < 50" in found[3].source
    assert {each.line for each in mutants("a.py", SOURCE, {7}, 9)} == {7}
    assert mutants("a.py", SOURCE, {1, 2, 5}, 9) == []


@pytest.mark.parametrize("source", ["def f(:", "", "x = None\n", "\0"])
def test_what_cannot_be_broken_gives_no_mutant(source: str) -> None:
    assert mutants("a.py", source, range(100), 4) == []


def test_code_in_other_words_does_the_same_and_what_cannot_be_read_is_none() -> None:
    text = rewritten("def f(n):\n    # twice\n    return  2*n\n")
    assert text == "def f(n):\n    return 2 * n\n"
    assert rewritten("def f(:") is None
    assert rewritten("x = 0x" + "f" * 9000) is None
    assert mutants("a.py", "x = " + "-" * 9000 + "1", {1}, 4) == []


@pytest.mark.parametrize("text", ["open(__file__)", "Path('a.py').read_text()", "inspect.getsource(f)", "f.__code__"])
def test_only_what_can_look_at_source_is_asked_about_it(text: str) -> None:
    assert may_read_source(text)
    assert not may_read_source("from a import f\n\n\ndef test_f():\n    assert f(2) == 4\n")
