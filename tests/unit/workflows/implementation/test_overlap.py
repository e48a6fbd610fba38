"""Items that change the same files are seen before they run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import UsageError
from agentos.workflows.implementation.overlap import (
    Overlap,
    find_overlaps,
    merge_order,
)

CHANGES = {"a": ["src/x.py", "src/y.py"], "b": ["./src/X.py"], "c": ["src/z.py", "src/y.py"], "d": ["docs/d.md"]}


def test_overlaps_name_the_pair_and_the_files_whatever_the_spelling() -> None:
    overlaps = find_overlaps(CHANGES)
    assert overlaps == (Overlap("a", "b", ("src/x.py",)), Overlap("a", "c", ("src/y.py",)))
    assert overlaps[0].words() == "a and b both change src/x.py"


def test_a_directory_overlaps_with_everything_below_it_and_nothing_beside_it() -> None:
    changes = {"a": ["src/core/"], "b": ["src/core/deep/x.py"], "c": ["src/core2/x.py"], "d": ["src/"]}
    pairs = {(overlap.first, overlap.second) for overlap in find_overlaps(changes)}
    assert pairs == {("a", "b"), ("a", "d"), ("b", "d"), ("c", "d")}


def test_files_that_both_only_add_to_are_told_apart() -> None:
    changes = {"a": ["pkg/__init__.py", "x.py"], "b": ["pkg/__init__.py", "x.py"], "c": ["pkg/__init__.py"]}
    adds = {"a": ["./pkg/__init__.py"], "b": ["pkg/__init__.py"]}
    assert find_overlaps(changes, adds) == (
        Overlap("a", "b", ("x.py",), ("pkg/__init__.py",)),
        Overlap("a", "c", ("pkg/__init__.py",)),
        Overlap("b", "c", ("pkg/__init__.py",)),
    )


def test_merge_order_puts_dependencies_first_and_the_most_entangled_last() -> None:
    assert merge_order(CHANGES) == ("d", "b", "c", "a")
    assert merge_order(CHANGES, {"d": ["a"], "b": ["not-here"]}) == ("b", "c", "a", "d")


def test_circle_of_dependencies_is_named() -> None:
    with pytest.raises(UsageError, match=r"circle: .*a.*b"):
        merge_order(CHANGES, {"a": ["b"], "b": ["a"]})


ITEMS = st.dictionaries(
    st.sampled_from("abcdefg"), st.sets(st.sampled_from(["1", "2", "3", "d/", "d/4"])), max_size=6
)


@settings(deadline=None, max_examples=60)
@given(ITEMS)
def test_the_order_has_every_item_once(changes: dict[str, set[str]]) -> None:
    assert sorted(merge_order(changes)) == sorted(changes)
