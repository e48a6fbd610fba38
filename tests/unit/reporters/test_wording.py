"""Every event has words that are safe to print, and the promised ones are exact."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.events import (
    BudgetNoticed,
    ChildrenLeaked,
    Event,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunFaulted,
    RunStarted,
    StopRequested,
    Warned,
)
from agentos.outcomes import (
    APPROVED,
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    NEEDS_REVISION,
    SKIPPED,
    Cause,
    Outcome,
    outcome_named,
)
from agentos.reporters.console import PrintingListener, dry_run_lines, lines
from agentos.reporters.wording import counts_in_words, labels_with
from agentos.text.words import countdown, duration, one_line

EXHAUSTED = "[COORDINATOR] Credential pool exhausted. Pausing all workflows... that need a key:"
lld = labels_with("LLD-")


@pytest.fixture
def in_utc_plus_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as context:
        context.setenv("TZ", "XYZ-2")
        time.tzset()
        yield
    time.tzset()


RUN = RunStarted(workflow="flows-review-graph", project_dir="/p", items=tuple("abcdefghij"), parallel=3, pid=1)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (RUN, ["[COORDINATOR] 10 items, 3 at a time (graph flows-review-graph)"]),
        (replace(RUN, items=("a", "b")), ["[COORDINATOR] 2 items, 2 at a time (graph flows-review-graph)"]),
        (ItemStarted(item_id="42", attempt=1, pid=7), []),
        (
            ItemStarted(item_id="42", attempt=2, pid=7, resumed_after="N1_design"),
            ["[LLD-42] resuming after N1_design"],
        ),
        (NodeStarted(item_id="42", node="N1_design"), ["[LLD-42] >>> Executing: N1_design"]),
        (NodeFinished(item_id="42", node="N1_design", seconds=1), []),
        (OutputProduced(item_id="42", block=b"one\n\x1b[31mtwo\x1b[0m\n"), ["[LLD-42] one", "[LLD-42] two"]),
        (OutputProduced(item_id="42", block=b""), []),
        (ItemNoticed(item_id="42", text="database set aside"), ["[LLD-42] database set aside"]),
        (
            ItemEnded(item_id="42", outcome=FAILED, seconds=3, reason="Invalid spec format"),
            ["[LLD-42] FAILED: Invalid spec format"],
        ),
        (ItemEnded(item_id="42", outcome=FAILED, seconds=3, error_type="KeyError"), ["[LLD-42] FAILED: KeyError"]),
        (ItemEnded(item_id="42", outcome=FAILED, seconds=3), ["[LLD-42] FAILED: no reason was given"]),
        (ItemEnded(item_id="42", outcome=APPROVED, seconds=12.34), ["[LLD-42] approved (12.3s)"]),
        (ItemEnded(item_id="42", outcome=NEEDS_REVISION, seconds=75), ["[LLD-42] needs revision (1m 15s)"]),
        (
            ItemEnded(item_id="a1", outcome=SKIPPED, seconds=0, reason="dependency a0 failed"),
            ["[LLD-a1] skipped: dependency a0 failed"],
        ),
        (
            ItemEnded(item_id="a1", outcome=INTERRUPTED, seconds=2, reason="stopped in N2"),
            ["[LLD-a1] interrupted: stopped in N2 (2.0s)"],
        ),
        (
            ItemRetried(item_id="a1", attempt=1, reason="killed by signal 9"),
            ["[LLD-a1] attempt 1 failed: killed by signal 9; trying again"],
        ),
        (ItemStalled(item_id="a1", silent_seconds=61), ["[LLD-a1] no sign of life for 1m 01s, ending it"]),
        (ChildrenLeaked(item_id="a1", pids=(7,)), ["[LLD-a1] left 1 process (pid 7) behind; ended now"]),
        (ChildrenLeaked(item_id="a1", pids=(7, 8)), ["[LLD-a1] left 2 processes (pids 7, 8) behind; ended now"]),
        (
            StopRequested(reason="SIGINT"),
            ["[COORDINATOR] Shutting down... waiting for workers to checkpoint"],
        ),
        (StopRequested(reason="SIGINT", at_once=True), ["[COORDINATOR] Stopping at once"]),
        (RunFaulted(reason="disk full"), ["[COORDINATOR] FAULT: disk full. Stopping all workflows"]),
        (Warned(text="capped to 10"), ["[COORDINATOR] Warning: capped to 10"]),
        (
            PoolExhausted(kind="in_use", names=("a",), slots=1),
            [f"{EXHAUSTED} all keys are busy (1 call at a time). To go faster, add a key or raise max_concurrent"],
        ),
        (
            PoolExhausted(kind="in_use", names=("a", "b"), limited=("c",), slots=5),
            [
                f"{EXHAUSTED} all other keys are busy (5 calls at a time); limited: c. "
                "To go faster, add a key or raise max_concurrent"
            ],
        ),
        (PoolExhausted(kind="in_use"), [f"{EXHAUSTED} all keys are busy. To go faster, add a key"]),
        (
            PoolExhausted(kind="none_valid", names=("a", "b")),
            ["[COORDINATOR] No usable key is left (a, b: rejected or without quota): calls fail"],
        ),
        (
            PoolExhausted(kind="none_valid"),
            ["[COORDINATOR] There is no key for a model that is needed: its calls fail"],
        ),
        (
            PoolExhausted(kind="limited", until="soon", seconds=5, is_overload=True),
            [f"{EXHAUSTED} the provider is overloaded, next try at soon (in 5 s)"],
        ),
        (PoolExhausted(kind="limited", seconds=5000), [f"{EXHAUSTED} all keys limited (in 84 min)"]),
        (
            PoolExhausted(kind="limited", until="soon", seconds=5),
            [f"{EXHAUSTED} all keys limited, next key at soon (in 5 s)"],
        ),
        (
            PoolResumed(waited_seconds=47),
            ["[COORDINATOR] Keys are available again after 47.0s. Resuming all workflows that waited"],
        ),
        (
            KeyCoolingDown(key_number=2, key_name="alpha", seconds=30),
            ["[COORDINATOR] Key alpha rate-limited, back in 30s"],
        ),
        (
            KeyCoolingDown(key_number=2, key_name="alpha", seconds=18600, reason="out of daily quota"),
            ["[COORDINATOR] Key alpha out of daily quota, back in 5 h 10 min"],
        ),
        (
            KeyCoolingDown(key_number=2, key_name="alpha", seconds=float("inf"), reason="rejected"),
            ["[COORDINATOR] Key alpha rejected"],
        ),
        (
            ParallelismChanged(now=1, before=3, reason="1 usable key"),
            ["[COORDINATOR] Running 1 at a time instead of 3: 1 usable key"],
        ),
        (
            BudgetNoticed(spent_usd=0.4, budget_usd=0.5),
            ["[COORDINATOR] Budget: $0.40 of $0.50 spent or reserved (80%)"],
        ),
        (
            BudgetNoticed(spent_usd=0.5, budget_usd=0.5),
            ["[COORDINATOR] Budget reached: $0.50 of $0.50 spent or reserved. Nothing new starts"],
        ),
        (
            RunEnded(counts={NEEDS_REVISION: 2, APPROVED: 8}, left=(), wall_seconds=1, item_seconds=1, exit_code=3),
            ["[COORDINATOR] 8 approved, 2 need revision"],
        ),
    ],
)
def test_each_event_has_its_words(event: Event, expected: list[str]) -> None:
    assert lines(event, lld) == expected


@pytest.mark.usefixtures("in_utc_plus_two")
def test_limited_keys_say_when_the_next_opens_on_the_users_clock() -> None:
    event = PoolExhausted(kind="limited", until="2026-10-05T12:32:10.000Z", seconds=46.2)
    assert lines(event) == [f"{EXHAUSTED} all keys limited, next key at 14:32:10 (in 47 s)"]


@pytest.mark.usefixtures("in_utc_plus_two")
def test_an_opening_on_another_day_has_its_date() -> None:
    event = PoolExhausted(kind="limited", until="2026-10-06T07:00:00.000Z", seconds=12 * 3600)
    assert lines(event) == [f"{EXHAUSTED} all keys limited, next key at 2026-10-06 09:00:00 (in 12 h 0 min)"]


def test_a_key_is_called_as_the_list_of_keys_calls_it() -> None:
    assert " Key alpha " in lines(KeyCoolingDown(key_number=2, key_name="alpha", seconds=30))[0]


@pytest.mark.parametrize(
    ("counts", "failed", "expected"),
    [
        ({FAILED: 1, COMPLETED: 9}, ["LLD-42"], "9 completed, 1 failed (LLD-42)"),
        (
            {NEEDS_REVISION: 1, outcome_named("custom_end"): 2, APPROVED: 1},
            [],
            "1 approved, 2 custom end, 1 needs revision",
        ),
        ({AWAITING_REVIEW: 2, SKIPPED: 0}, [], "2 await review"),
        ({FAILED: 12}, [str(n) for n in range(12)], "12 failed (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more)"),
        ({}, [], "nothing finished"),
    ],
)
def test_counts_are_told_in_words(counts: dict[Outcome, int], failed: list[str], expected: str) -> None:
    assert counts_in_words(counts, failed) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0s"), (59.94, "59.9s"), (59.99, "1m 00s"), (3599, "59m 59s"), (3600, "1h 00m"), (90061, "25h 01m")],
)
def test_durations_read_well_at_every_size(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize("damaged", [math.inf, math.nan])
def test_a_duration_that_is_no_number_is_shown_as_unknown(damaged: float) -> None:
    assert duration(damaged) == "?"


def test_a_countdown_never_promises_too_early() -> None:
    assert [countdown(s) for s in (0, 46.1, 119.5, 7200)] == ["1 s", "47 s", "2 min", "2 h 0 min"]


def test_a_reason_cannot_start_a_line_of_its_own_or_move_the_cursor() -> None:
    reason = "bad\n[COORDINATOR] all done\r\x1b[2J\x1b]0;title\x07\u2028\u202eend"
    (line,) = lines(ItemEnded(item_id="42", outcome=FAILED, seconds=1, reason=reason), lld)
    assert line == "[LLD-42] FAILED: bad [COORDINATOR] all done \\u202eend"


def test_a_reason_of_many_megabytes_is_cut_to_a_line() -> None:
    (line,) = lines(ItemEnded(item_id="42", outcome=FAILED, seconds=1, reason="x" * 50_000_000))
    assert len(line) < 500
    assert line.endswith("x…")


@given(st.text())
@settings(deadline=None, max_examples=200)
def test_any_text_becomes_one_printable_line(text: str) -> None:
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown
    assert len(shown) <= 400


HOSTILE = "a\nb\x1b[2J\r"
SAMPLES: dict[str, Any] = {
    "str": HOSTILE,
    "str | None": HOSTILE,
    "int": 3,
    "int | None": 3,
    "float": 1.5,
    "float | None": 1.5,
    "bool": True,
    "Any": {HOSTILE: [HOSTILE]},
    "bytes": b"a\nb\x1b[2J\n",
    "tuple[str, ...]": (HOSTILE,),
    "tuple[int, ...]": (1, 2),
    "Outcome": outcome_named(HOSTILE),
    "Cause": Cause.OTHER,
    "Mapping[Outcome, int]": {outcome_named(HOSTILE): 1},
}


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_stays_in_its_lines_whatever_it_holds(kind: Any) -> None:
    values = {field.name: SAMPLES[str(field.type)] for field in dataclasses.fields(kind)}
    if "item_id" in values:
        values["item_id"] = "a1"
    for line in lines(kind(**values)):
        assert line.startswith("[")
        assert line.isprintable()


def test_a_coordinator_without_listener_prints_through_the_print_of_the_moment() -> None:
    listener = PrintingListener()
    with patch("builtins.print") as printed:
        listener(Warned(text="20 workers capped to 10"))
        listener(KeyCoolingDown(key_number=1, key_name="1", seconds=30.0))
        listener(PoolExhausted(kind="in_use"))
        listener.dry_run(["a", "b"])
    assert [call.args[0] for call in printed.call_args_list] == [
        "[COORDINATOR] Warning: 20 workers capped to 10",
        "[COORDINATOR] Key 1 rate-limited, back in 30s",
        f"{EXHAUSTED} all keys are busy. To go faster, add a key",
        "[COORDINATOR] Dry run mode: 2 items would run, nothing was started",
        "[a] would run",
        "[b] would run",
    ]


def test_a_dry_run_of_one_item_counts_one() -> None:
    assert dry_run_lines(["7"], lld)[0] == "[COORDINATOR] Dry run mode: 1 item would run, nothing was started"
