"""Colours and links: what they mark, and that without them every line stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.events import Event, ItemEnded, NodeStarted, PoolExhausted, RunNoticed, Warned
from agentos.outcomes import (
    APPROVED,
    AS_ASKED,
    AWAITING_REVIEW,
    FAILED,
    INTERRUPTED,
    NEEDS_REVISION,
    SKIPPED,
    Outcome,
    outcome_named,
)
from agentos.reporters.painting import GREEN, RED, YELLOW, Painter, outcome_colour
from agentos.reporters.wording import labels_with, lines

RUN_DIR = Path("/home/ada/my runs/20261005")
EVENTS: list[Event] = [
    ItemEnded(item_id="42", outcome=NEEDS_REVISION, seconds=3, reason="two findings"),
    ItemEnded(item_id="42", outcome=FAILED, seconds=3, reason="no"),
    NodeStarted(item_id="42", node="N1"),
    Warned(text="a: b"),
    PoolExhausted(kind="limited"),
    RunNoticed(text="hello"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_without_colour_lines_stay_as_they_are(event: Event) -> None:
    plain = lines(event, labels_with("LLD-"))
    assert Painter(run_dir=RUN_DIR).event_lines(event, plain) == plain
    assert Painter(run_dir=RUN_DIR).summary_lines(plain, {FAILED: 1}) == plain


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (EVENTS[0], "\x1b[33mneeds revision\x1b[0m\x1b[2m: two findings (3.0s)\x1b[0m"),
        (EVENTS[1], "\x1b[31mFAILED: no\x1b[0m"),
        (EVENTS[2], "\x1b[2m>>> Executing: N1\x1b[0m"),
        (EVENTS[3], "\x1b[33mWarning:\x1b[0m a: b"),
        (EVENTS[5], "hello"),
    ],
)
def test_outcomes_have_colours_and_times_and_reasons_are_dim(event: Event, shown: str) -> None:
    [line] = Painter(colour=True).event_lines(event, lines(event))
    assert line.partition("]\x1b[0m ")[2] == shown


@pytest.mark.parametrize(
    ("outcome", "colour"),
    [
        (APPROVED, GREEN),
        (AS_ASKED, GREEN),
        (outcome_named("a graph's own"), GREEN),
        (NEEDS_REVISION, YELLOW),
        (AWAITING_REVIEW, YELLOW),
        (SKIPPED, YELLOW),
        (INTERRUPTED, YELLOW),
        (FAILED, RED),
    ],
)
def test_green_is_done_red_failed_and_yellow_somebodys_turn(outcome: Outcome, colour: str) -> None:
    assert outcome_colour(outcome) == colour


def test_an_item_has_one_colour_and_its_neighbours_have_others() -> None:
    painter = Painter(colour=True, many_colours=True)
    styles = [painter.label_style(f"LLD-{number}") for number in range(100, 110)]
    assert len(set(styles)) == 10
    assert Painter(colour=True, many_colours=True).label_style("LLD-104") == styles[4]


def test_the_coordinators_label_is_dim() -> None:
    assert Painter(colour=True).lines(["[COORDINATOR] x"]) == ["\x1b[2m[COORDINATOR]\x1b[0m x"]


def test_numbers_of_the_summary_have_their_outcomes_colours() -> None:
    told = ["[COORDINATOR] 2 approved, 1 failed (LLD-1)", "[COORDINATOR] 2.0s in all"]
    first, second = Painter(colour=True).summary_lines(told, {APPROVED: 2, FAILED: 1})
    assert first.endswith("\x1b[32m2 approved\x1b[0m, \x1b[31m1 failed\x1b[0m (LLD-1)")
    assert second.endswith(" 2.0s in all")


def test_paths_of_logs_open_where_the_terminal_can() -> None:
    line = f"[LLD-1] log: {RUN_DIR}/1.log"
    [shown] = Painter(colour=True, links=True, run_dir=RUN_DIR).lines([line])
    link = "\x1b]8;;file:///home/ada/my%20runs/20261005/1.log\x1b\\"
    assert shown.endswith(f"{link}{RUN_DIR}/1.log\x1b]8;;\x1b\\")
    [plain] = Painter(colour=True, run_dir=RUN_DIR).lines([line])
    assert "\x1b]8" not in plain
