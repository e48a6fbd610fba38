"""The live block: what it says of each item, and that it fits any window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentos.dashboard.block import Line, block
from agentos.dashboard.view import ItemView, RunView, Span
from agentos.text.width import width

BAR = "[=====>    ] 5/10 workflows complete · 2-4 min left"
STAGES = ("load", "design", "review", "finish")


def item(label: str, *nodes: str, is_between: bool = False, **more: object) -> ItemView:
    """At the last of these nodes for five seconds, since the tenth second of the run."""
    spans = [Span(node, 10.0, 20.0) for node in nodes[:-1]]
    spans += [Span(node, 95.0, 96.0 if is_between else None) for node in nodes[-1:]]
    return ItemView(label, label, started=10.0, spans=spans, **more)  # type: ignore[arg-type]


def view(*items: ItemView) -> RunView:
    return RunView(items={each.id: each for each in items}, elapsed=100.0)


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def test_each_running_item_has_a_line_and_the_bar_is_the_last() -> None:
    shown = view(
        item("LLD-1", "load", "design", calling_since=[88.0], input_tokens=1000, output_tokens=234, cost_usd=0.25),
        item("LLD-12", "load", "design", "review", waits=[Span("review", 55.0, kind="busy")]),
        item("LLD-3", "load"),
        item("LLD-4"),
    )
    assert texts(block(shown, BAR, 120, 10, STAGES)) == [
        "LLD-1   ●◉○○  design  generating 0:12         1:30  1,234 tokens  $0.25",
        "LLD-12  ●●◉○  review  waiting for a key 0:45  1:30",
        "LLD-3   ◉○○○  load    working 0:05            1:30",
        "LLD-4   ○○○○          starting                1:30",
        BAR,
    ]


def test_a_wait_says_what_for() -> None:
    causes = {"limited": "a limit", "budget": "money"}
    for cause, words in causes.items():
        [line, _] = block(view(item("a", "load", waits=[Span("load", 40.0, kind=cause)])), BAR, 100, 5, ())
        assert line.text == f"a  load  waiting for {words} 1:00  1:30"
    [line, _] = block(view(item("a", waits=[Span("", 40.0, kind="paused")])), BAR, 100, 5, ())
    assert line.text == "a  paused 1:00  1:30"


def test_a_node_that_comes_again_is_counted_and_its_dot_is_where_it_is_now() -> None:
    [line, _] = block(view(item("a", "load", "design", "review", "design")), BAR, 100, 5, STAGES)
    assert line.text == "a  ●◉○○  design ×2  working 0:05  1:30"


def test_between_two_nodes_it_has_passed_the_last() -> None:
    [line, _] = block(view(item("a", "load", "design", is_between=True)), BAR, 100, 5, STAGES)
    assert line.text == "a  ●●○○  between nodes  1:30"


def test_a_node_that_is_no_known_stage_and_too_many_stages_have_no_dot() -> None:
    [line, _] = block(view(item("a", "surprise")), BAR, 100, 5, STAGES)
    assert line.text == "a  ○○○○  surprise  working 0:05  1:30"
    [line, _] = block(view(item("a", "n1")), BAR, 100, 5, [f"n{number}" for number in range(40)])
    assert line.text == "a  n1  working 0:05  1:30"


def test_items_that_have_ended_or_not_begun_have_no_line() -> None:
    assert texts(block(view(ItemView("a", "a")), BAR, 100, 5, STAGES)) == [BAR]


def test_of_more_items_than_lines_the_rest_is_a_number() -> None:
    shown = view(*(item(f"LLD-{number}", "load") for number in range(10)))
    assert texts(block(shown, BAR, 100, 4, STAGES))[2:] == ["+8 more running", BAR]
    assert texts(block(shown, BAR, 100, 2, STAGES)) == ["+10 more running", BAR]
    assert texts(block(shown, BAR, 100, 1, STAGES)) == [BAR]
    assert len(block(shown, BAR, 100, 11, STAGES)) == 11


def test_a_narrow_window_keeps_who_it_is_and_what_it_does() -> None:
    shown = view(item("LLD-1", "load", "design", calling_since=[88.0], input_tokens=1000, cost_usd=0.25))
    assert texts(block(shown, "5/10", 60, 5, STAGES))[0] == "LLD-1  ●◉○○  design  generating 0:12  1:30  $0.25"
    assert texts(block(shown, "5/10", 45, 5, STAGES))[0] == "LLD-1  ●◉○○  generating 0:12  1:30  $0.25"
    assert texts(block(shown, "5/10", 30, 5, STAGES))[0] == "LLD-1  generating 0:12  $0.25"
    assert texts(block(shown, "5/10", 23, 5, STAGES))[0] == "LLD-1  generating 0:12"
    assert texts(block(shown, "5/10", 15, 5, STAGES))[0] == "LLD-1  generat…"


def test_wide_characters_are_counted_as_wide_as_they_are() -> None:
    shown = view(item("設計書", "load"), item("b", "load"))
    first, second, _ = block(shown, BAR, 80, 5, ())
    assert first.text == "設計書  load  working 0:05  1:30"
    assert second.text == "b       load  working 0:05  1:30"
    assert first.width == second.width == 32


NAMES = st.text(max_size=30)
TIMES = st.floats(0, 1e6)
WAITS = ["busy", "limited", "budget", "paused", "of a later version"]
ITEMS = st.builds(
    lambda name, nodes, calling, waits, tokens, cost: item(
        name or "x", *nodes, calling_since=calling, waits=waits, input_tokens=tokens, cost_usd=cost
    ),
    NAMES,
    st.lists(st.sampled_from([*STAGES, "設計", "a\x1b[31mb"]), max_size=6),
    st.lists(TIMES, max_size=2),
    st.lists(st.builds(lambda at, kind: Span("", at, kind=kind), TIMES, st.sampled_from(WAITS)), max_size=1),
    st.integers(0, 10**12),
    st.floats(0, 1e9),
)


@given(st.lists(ITEMS, max_size=12), NAMES, st.integers(1, 200), st.integers(1, 15), st.booleans())
def test_it_is_never_wider_than_the_window_nor_higher_than_allowed(
    items: list[ItemView], bar: str, columns: int, most_lines: int, knows_stages: bool
) -> None:
    lines = block(view(*items), bar, columns, most_lines, STAGES if knows_stages else ())
    assert 1 <= len(lines) <= most_lines
    for line in lines[:-1]:
        assert line.width == width(line.text) <= columns
        assert not set("\x1b\r\n\t") & set(line.text)
    assert lines[-1].width <= columns


def test_a_window_without_room_gets_nothing() -> None:
    assert block(view(item("a", "load")), BAR, 0, 5, ()) == []
    assert block(view(item("a", "load")), BAR, 80, 0, ()) == []
