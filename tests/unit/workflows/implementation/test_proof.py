"""What is made of mistakes that the new tests were shown."""

from __future__ import annotations

import pytest

from agentos.workflows.implementation.proof import Mutation

TRIED = ("a.py line 1 returns nothing", "a.py line 2 is left out")


@pytest.mark.parametrize(
    ("mutation", "words"),
    [
        (Mutation(), ""),
        (Mutation(TRIED, noticed=1, unmoved=("t.py::test_b",)), ""),
        (Mutation(TRIED), "no new test notices that the code is broken (2 mistakes tried"),
        (Mutation(TRIED, noticed=2, goes_by_text=True), "they depend on its text, its file or how it is compiled"),
        (
            Mutation(TRIED, noticed=1, unmoved=("t.py::test_b",), never_failed=("t.py::test_b",)),
            "1 new test passed before there was code, and with each of 2 mistakes in it (t.py::test_b)",
        ),
    ],
)
def test_tests_that_cannot_fail_are_a_weakness_and_one_that_was_seen_failing_is_not(
    mutation: Mutation, words: str
) -> None:
    assert words in mutation.weakness
    assert bool(words) == bool(mutation.weakness)
