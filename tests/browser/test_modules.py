"""The page's pure modules, in the browser they are for: times in words, terminal colours, diffs, where time went."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Sandbox
from windows import OpenWindow, Window, dashboard_of

from agentos.text.words import countdown, duration


@pytest.fixture
def shown(sandbox: Sandbox, window: OpenWindow) -> Window:
    return window(dashboard_of(sandbox).control)


def evaluated(shown: Window, module: str, expression: str) -> Any:
    return shown.page.evaluate(f"import('/static/{module}.js').then((m) => ({expression}))")


def test_times_money_and_counts_are_short_and_exact(shown: Window) -> None:
    told = evaluated(
        shown,
        "format",
        "[m.clock(151), m.clock(3725.9), m.money(0), m.money(0.0042), m.money(1.5),"
        " m.count(812), m.count(12400), m.count(3100000), m.bytes(90000)]",
    )
    assert told == [
        "2:31", "1:02:05", "$0", "$0.0042", "$1.50", "812", "12.4k", "3.1M", "88 KB",
    ]  # fmt: skip


def test_times_are_told_as_the_terminal_tells_them(shown: Window) -> None:
    seconds = [0, 0.4, 59.94, 59.96, 75, 119.6, 3599.4, 4800, 183_600]
    told = evaluated(shown, "format", f"{seconds}.flatMap((one) => [m.duration(one), m.countdown(one)])")
    assert told == [words(one) for one in seconds for words in (duration, countdown)]


def test_terminal_colours_are_kept_and_every_other_order_dropped(shown: Window) -> None:
    lines = r"m.runsOf('\x1b[1;31mred\x1b[0m \x1b[38;5;208mwarm\x1b[39m \x1b]0;title\x07\x1b[2Jend').runs"
    told = evaluated(shown, "ansi", f"{lines}.map((run) => [run.text, run.style.fg, run.style.bold])")
    assert told == [
        ["red", 1, True],
        [" ", None, False],
        ["warm", "rgb(255, 135, 0)", False],
        [" ", None, False],
        ["end", None, False],
    ]
    assert evaluated(shown, "ansi", r"m.withoutColour('\x1b[7mplain\x1b[0m')") == "plain"


def test_a_diff_numbers_both_sides_and_marks_what_changed_in_a_line(shown: Window) -> None:
    file = (
        "{hunks: [{header: '@@ -3,2 +3,2 @@', lines: [[' ', 'same'], ['-', 'pay 0.1 now'], ['+', 'pay 0.2 now']]}]}"
    )
    rows = evaluated(shown, "diff", f"m.rowsOf({file})")
    assert [(row["kind"], row.get("before"), row.get("after")) for row in rows] == [
        ("hunk", None, None), ("same", 3, 3), ("del", 4, None), ("add", None, 4)
    ]  # fmt: skip
    assert rows[2]["text"][slice(*rows[2]["part"])] == "1"


def test_time_waited_is_not_counted_as_work(shown: Window) -> None:
    node, wait, pause = ("'node'", "'a'", 0, 10), ("'busy'", "'a'", 2, 5), ("'paused'", "''", 10, 12)
    shape = "{{kind: {}, node: {}, start: {}, end: {}}}"
    blocks = f"[{', '.join(shape.format(*each) for each in (node, wait, pause))}]"
    sums = [["node", 7], ["busy", 3], ["paused", 2]]
    assert evaluated(shown, "timeline", f"[...m.timeByKind({blocks}, 12)]") == sums


def test_a_block_is_named_where_it_was_at_work(shown: Window) -> None:
    node, wait = "{kind: 'node', slot: 0, start: 0, end: 10}", "{kind: 'busy', slot: 0, start: 1, end: 4}"
    assert evaluated(shown, "timeline", f"m.freeSpan({node}, [{wait}], 10)") == [4, 10]
    assert evaluated(shown, "timeline", f"m.freeSpan({node}, [], 10)") == [0, 10]
