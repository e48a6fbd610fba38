"""The plan: parsing, selecting and ordering items."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.engine.plan import Item, Plan, input_hash, make_plan, parse_items, select
from agentos.errors import ExitCode, InvalidIdentifier, UsageError


def lines(*objects: object) -> list[str]:
    return [json.dumps(each) for each in objects]


def ids(items: Sequence[Item]) -> list[str]:
    return [item.id for item in items]


# Parsing.


def test_an_item_line_becomes_an_item() -> None:
    [item] = parse_items(lines({"id": "a1", "input": {"n": 1}, "priority": 2, "depends_on": []}), "items.jsonl")
    assert item == Item(id="a1", input={"n": 1}, priority=2)


def test_an_id_alone_is_enough() -> None:
    assert parse_items(['{"id": "a1"}'], "items.jsonl") == [Item(id="a1")]


def test_numbers_are_taken_as_ids() -> None:
    [seven, eight] = parse_items(lines({"id": 7}, {"id": 8, "depends_on": [7]}), "items.jsonl")
    assert (seven.id, eight.depends_on) == ("7", ("7",))


def test_empty_lines_are_skipped_but_counted() -> None:
    with pytest.raises(UsageError, match="line 4"):
        parse_items(["", '{"id": "a"}', "   ", "{oops"], "items.jsonl")


def test_equal_duplicates_merge_and_keep_the_first_place() -> None:
    twice = {"id": "a", "input": {"x": [1, {"y": 2}]}}
    assert ids(parse_items(lines(twice, {"id": "b"}, twice), "f")) == ["a", "b"]


def test_repeated_dependencies_merge() -> None:
    [_, item] = parse_items(lines({"id": "a"}, {"id": "b", "depends_on": ["a", "a"]}), "f")
    assert item.depends_on == ("a",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"input": {"x": 1}}, {"input": {"x": 2}}),
        ({"input": {"x": 1}}, {"input": {"x": True}}),  # Equal in Python, not in JSON.
        ({"input": {"x": 1}}, {"input": {"x": 1.0}}),
        ({"priority": 0}, {"priority": 1}),
        ({"depends_on": []}, {"depends_on": ["z"]}),
    ],
)
def test_duplicates_with_different_content_are_refused_with_both_lines(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=r"f, line 3: id 'a' is on line 2 already, with different content") as caught:
        parse_items(lines({"id": "z"}, {"id": "a", **one}, {"id": "a", **other}), "f")
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"id": "a", "priority": ' + "1" * 5_000 + "}", "not valid JSON"),
        ('{"id": "a", "input": {"x": NaN}}', "NaN is not a number in JSON"),
        ('{"id": "a", "input": {"x": [-Infinity]}}', "-Infinity is not a number in JSON"),
        ('{"id": "a", "input": {"x": 1e999}}', "1e999 is not a number in JSON"),
        ("[1, 2]", "expected an object .* got a list"),
        ("null", "expected an object .* got null"),
        ('"a"', "expected an object .* got a string"),
        ('{"input": {}}', "no id"),
        ('{"id": null}', "an id must be a string, got null"),
        ('{"id": true}', "an id must be a string, got true"),
        ('{"id": 1.5}', "an id must be a string, got 1.5"),
        ('{"id": "a", "inptu": {}}', "unknown key 'inptu'.*Known: id, input, priority, depends_on"),
        ('{"id": "a", "input": null}', "input must not be null"),
        ('{"id": "a", "config": [1]}', "config must be an object, got a list"),
        ('{"id": "a", "env": {"A": 1}}', "env: 'A' must be a string, got a whole number"),
        ('{"id": "a", "priority": "high"}', "priority must be a whole number, got a string"),
        ('{"id": "a", "priority": true}', "priority must be a whole number, got true"),
        ('{"id": "a", "priority": 1.5}', "priority must be a whole number, got 1.5"),
        ('{"id": "a", "depends_on": "b"}', "depends_on must be a list, got a string"),
        ('{"id": "a", "depends_on": [null]}', "an id must be a string, got null"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"(?s)^items.jsonl, line 2: .*{words}"):
        parse_items(['{"id": "ok"}', line], "items.jsonl")


@pytest.mark.parametrize("bad", ["../etc/passwd", "a b", "", "a\n", "NUL", "x" * 129, "ä"])
def test_unsafe_ids_are_refused_with_their_line(bad: str) -> None:
    with pytest.raises(InvalidIdentifier, match="f, line 1: Invalid identifier") as caught:
        parse_items(lines({"id": bad}), "f")
    assert "\n" not in str(caught.value)


def test_no_item_may_pass_for_the_coordinator() -> None:
    with pytest.raises(
        InvalidIdentifier, match="f, line 1: 'COORDINATOR' is the name the run's own lines begin with"
    ):
        parse_items(lines({"id": "COORDINATOR"}), "f")


def test_an_unsafe_dependency_is_refused_too() -> None:
    with pytest.raises(InvalidIdentifier, match="f, line 1"):
        parse_items(lines({"id": "a", "depends_on": ["../b"]}), "f")


def test_a_dependency_that_is_not_in_the_file_is_refused() -> None:
    with pytest.raises(UsageError, match="f, line 1: 'a' depends on 'b', which is not in f"):
        parse_items(lines({"id": "a", "depends_on": ["b"]}), "f")


def test_a_dependency_may_stand_below_its_dependent() -> None:
    assert ids(parse_items(lines({"id": "a", "depends_on": ["b"]}, {"id": "b"}), "f")) == ["a", "b"]


def test_an_input_too_deep_to_be_written_again_is_refused() -> None:
    def nested(levels: int) -> str:
        return '{"id": "a", "input": {"x": ' + "[" * levels + "]" * levels + "}}"

    assert parse_items([nested(150)], "f")
    with pytest.raises(UsageError, match="nested more than 200 levels"):
        parse_items([nested(250)], "f")


# The hash of an input.


def test_the_hash_ignores_the_order_of_keys_and_nothing_else() -> None:
    assert input_hash({"a": 1, "b": {"c": 2, "d": 3}}) == input_hash({"b": {"d": 3, "c": 2}, "a": 1})
    different = [{}, {"a": 1}, {"a": "1"}, {"a": True}, {"a": [1]}, {"a": None}, {"a": "\ud800"}, {"ä": 1}]
    assert len({input_hash(each) for each in different}) == len(different)


# Selecting.

SOME = [Item(id=name) for name in ("a1", "a2", "b1", "b2", "c-1")]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["a1", "a2", "b1", "b2", "c-1"]),
        (["b1"], ["b1"]),
        (["b2", "a1"], ["a1", "b2"]),
        (["a*"], ["a1", "a2"]),
        (["?1", "c*"], ["a1", "b1", "c-1"]),
        (["[ab]2"], ["a2", "b2"]),
        (["b1", "b1", "b*"], ["b1", "b2"]),
    ],
)
def test_ids_and_globs_select_in_the_items_own_order(patterns: list[str], expected: list[str]) -> None:
    assert ids(select(SOME, patterns)) == expected


def test_an_unknown_id_is_an_error_that_names_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"No item matches 'zz'\. Items: a1, a2, b1, b2, c-1\."):
        select(SOME, ["a1", "zz"])
    with pytest.raises(UsageError, match=r"i7 and 12 more\."):
        select([Item(id=f"i{n}") for n in range(20)], ["nothing*"])
    with pytest.raises(UsageError, match="There are no items"):
        select([], ["a"])


def test_selection_is_case_sensitive() -> None:
    with pytest.raises(UsageError, match="No item matches 'A1'"):
        select(SOME, ["A1"])


# Ordering.


def order(*items: Item) -> list[str]:
    return ids(make_plan(items).items)


def test_without_priorities_or_dependencies_the_input_order_stands() -> None:
    assert order(Item(id="c"), Item(id="a"), Item(id="b")) == ["c", "a", "b"]


def test_higher_priority_goes_first_and_ties_keep_their_order() -> None:
    assert order(Item(id="low", priority=-1), Item(id="a"), Item(id="high", priority=5), Item(id="b")) == [
        "high",
        "a",
        "b",
        "low",
    ]


def test_dependencies_come_first_even_before_higher_priorities() -> None:
    assert order(Item(id="top", priority=9, depends_on=("base",)), Item(id="other", priority=5), Item(id="base")) == [
        "base",
        "top",
        "other",
    ]


def test_urgency_reaches_through_a_chain_of_dependencies() -> None:
    urgent = Item(id="z", priority=9, depends_on=("y",))
    assert order(Item(id="a", priority=5), Item(id="x"), Item(id="y", depends_on=("x",)), urgent) == [
        "x",
        "y",
        "z",
        "a",
    ]


def test_a_dependency_outside_the_run_is_taken_as_done() -> None:
    plan = make_plan([Item(id="b", depends_on=("a",)), Item(id="c", depends_on=("b", "a"))])
    assert plan.depends_on == {"b": (), "c": ("b",)}
    assert ids(plan.items) == ["b", "c"]


def test_of_a_long_cycle_both_ends_are_named() -> None:
    names = [f"i{number}" for number in range(3_000)]
    items = [Item(id=a, depends_on=(b,)) for a, b in zip(names, [*names[1:], "i0"], strict=True)]
    with pytest.raises(UsageError) as caught:
        make_plan(items)
    shown = "i0 -> i1 -> i2 -> i3 -> i4 -> (2,991 more) -> i2996 -> i2997 -> i2998 -> i2999 -> i0"
    assert f"in a circle: {shown}." in str(caught.value)


@pytest.mark.parametrize(
    ("graph", "cycle"),
    [
        ({"a": ["a"]}, "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a -> b -> a"),
        ({"start": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}, "a -> b -> c -> a"),
        ({"ok": [], "x": ["ok", "y"], "y": ["ok", "x"]}, "x -> y -> x"),
    ],
)
def test_a_cycle_is_refused_and_named(graph: dict[str, list[str]], cycle: str) -> None:
    with pytest.raises(UsageError, match=f"in a circle: {cycle}[.]"):
        make_plan([Item(id=name, depends_on=tuple(needs)) for name, needs in graph.items()])


def test_a_diamond_is_no_cycle() -> None:
    assert order(
        Item(id="d", depends_on=("b", "c")),
        Item(id="b", depends_on=("a",)),
        Item(id="c", depends_on=("a",)),
        Item(id="a"),
    ) == ["a", "b", "c", "d"]


def test_a_chain_of_thousands_is_planned_without_deep_recursion() -> None:
    count = 20_000
    items = [Item(id=f"i{n}", depends_on=(f"i{n + 1}",) if n + 1 < count else ()) for n in range(count)]
    assert ids(make_plan(items).items)[:2] == [f"i{count - 1}", f"i{count - 2}"]


def test_fifty_thousand_items_are_planned() -> None:
    # About a second; looking through all items for each of them takes many minutes.
    text = [json.dumps({"id": f"item-{n}", "input": {"n": n}, "priority": n % 7}) for n in range(50_000)]
    items = parse_items(text, "f")
    assert len(make_plan(select(items, [item.id for item in items])).items) == 50_000


@st.composite
def acyclic_items(draw: st.DrawFn) -> list[Item]:
    """Items in a random order whose dependencies point down a hidden order, so that there is no cycle."""
    count = draw(st.integers(0, 14))
    rng = random.Random(draw(st.integers(0, 2**32)))
    items = [
        Item(
            id=f"i{n}",
            priority=rng.randint(-2, 2),
            depends_on=tuple(f"i{d}" for d in rng.sample(range(n), rng.randint(0, min(n, 3)))),
        )
        for n in range(count)
    ]
    rng.shuffle(items)
    return items


def _urgency(plan: Plan, item_id: str) -> int:
    """The definition, naively: the highest priority among the item and all that need it."""
    by_id = {item.id: item for item in plan.items}
    needed_by = [i for i, needs in plan.depends_on.items() if item_id in needs]
    return max([by_id[item_id].priority, *(_urgency(plan, each) for each in needed_by)])


@settings(max_examples=150, deadline=None)
@given(acyclic_items())
def test_every_plan_holds_each_item_once_and_picks_the_most_urgent_that_is_ready(items: list[Item]) -> None:
    plan = make_plan(items)
    assert sorted(ids(plan.items)) == sorted(ids(items))
    place = {item.id: n for n, item in enumerate(items)}
    done: set[str] = set()
    for item in plan.items:
        ready = [i for i in place if i not in done and set(plan.depends_on[i]) <= done]
        assert item.id == min(ready, key=lambda i: (-_urgency(plan, i), place[i]))
        done.add(item.id)
