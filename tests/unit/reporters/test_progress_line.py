"""The bar is exact, the time left is an honest range, and the line fits any window."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.events import (
    ControlTaken,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    NodeStarted,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunStarted,
    StopRequested,
)
from agentos.outcomes import (
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    NEEDS_REVISION,
    SKIPPED,
    Outcome,
)
from agentos.reporters.progress import Durations, Progress, bar, range_in_words, seconds_left


def started(total: int = 10, parallel: int = 3) -> Progress:
    progress = Progress()
    ids = tuple(f"a{n}" for n in range(1, total + 1))
    progress.note(RunStarted(workflow="w", project_dir="/p", items=ids, parallel=parallel, pid=1), 0.0)
    return progress


def start(progress: Progress, *item_ids: str, now: float = 0.0) -> None:
    for item_id in item_ids:
        progress.note(ItemStarted(item_id=item_id, attempt=1, pid=1), now)


def end(progress: Progress, *item_ids: str, outcome: Outcome = COMPLETED, seconds: float = 60.0) -> None:
    for item_id in item_ids:
        progress.note(ItemEnded(item_id=item_id, outcome=outcome, seconds=seconds), 0.0)


@pytest.mark.parametrize(
    ("ended", "total", "expected"),
    [
        (0, 10, "[>         ]"),
        (5, 10, "[=====>    ]"),
        (9, 10, "[=========>]"),
        (10, 10, "[==========]"),
        (999, 1000, "[=========>]"),
        (0, 0, "[==========]"),
        (1, 3, "[===>      ]"),
    ],
)
def test_the_bar_is_ten_characters_and_full_only_at_the_end(ended: int, total: int, expected: str) -> None:
    assert bar(ended, total) == expected


def test_the_line_is_the_promised_one() -> None:
    progress = started()
    end(progress, "a1", "a2", "a3", "a4", "a5")
    assert progress.line() == "[=====>    ] 5/10 workflows complete"


def test_interrupted_items_have_not_ended_and_skipped_ones_have() -> None:
    progress = started()
    end(progress, "a1", outcome=INTERRUPTED)
    end(progress, "a2", outcome=SKIPPED, seconds=0)
    assert progress.ended == 1
    assert progress.line() == "[=>        ] 0/10 workflows complete, 1 skipped"


def test_what_failed_or_waits_is_not_called_complete() -> None:
    progress = started()
    end(progress, "a1", "a2", outcome=AWAITING_REVIEW)
    end(progress, "a3", outcome=FAILED)
    end(progress, "a4", outcome=NEEDS_REVISION)
    end(progress, "a5")
    assert progress.line() == "[=====>    ] 2/10 workflows complete, 2 await review, 1 failed"


def test_nothing_is_promised_before_two_items_ran_to_their_end() -> None:
    progress = started()
    end(progress, "a1")
    end(progress, "a2", "a3", outcome=SKIPPED, seconds=0)
    start(progress, "a4", "a5")
    assert progress.status_line(0.0, 200, str) == "[===>      ] 1/10 workflows complete, 2 skipped · 2 running: a4 a5"
    assert not progress.has_estimate


def test_running_items_and_the_time_left_follow_the_bar() -> None:
    progress = started()
    end(progress, "a1", seconds=60)
    end(progress, "a2", seconds=80)
    start(progress, "a3", "a4", "a5")
    assert progress.status_line(0.0, 200, str) == (
        "[==>       ] 2/10 workflows complete · 3 running: a3 a4 a5 · 2-5 min left"
    )
    assert progress.has_estimate


def test_waiting_for_keys_and_stopping_take_the_place_of_an_estimate() -> None:
    progress = started()
    end(progress, "a1", "a2")
    progress.note(PoolExhausted(kind="in_use"), 0.0)
    assert progress.status_line(0.0, 200, str).endswith("complete · waiting for keys")
    progress.note(PoolResumed(waited_seconds=1), 0.0)
    assert progress.status_line(0.0, 200, str).endswith("min left")
    progress.note(StopRequested(reason="SIGINT"), 0.0)
    assert progress.status_line(0.0, 200, str).endswith("complete · stopping")


def test_a_retried_item_is_no_longer_running() -> None:
    progress = started()
    start(progress, "a1")
    progress.note(ItemRetried(item_id="a1", attempt=1, reason="killed"), 0.0)
    assert "running" not in progress.status_line(0.0, 200, str)


def test_an_item_that_somebody_retries_has_not_ended_and_neither_has_what_was_skipped_for_it() -> None:
    progress = started()
    end(progress, "a1", outcome=FAILED)
    end(progress, "a2", outcome=SKIPPED)
    end(progress, "a3")
    assert progress.note(ControlTaken(act="retry", by="ada", target="a1", dependents=("a2",)), 0.0)
    assert progress.line() == "[=>        ] 1/10 workflows complete"


def test_events_that_do_not_show_change_nothing() -> None:
    assert not started().note(NodeStarted(item_id="a1", node="N1"), 0.0)


def test_fewer_workers_make_the_time_left_longer() -> None:
    progress = started(total=20, parallel=10)
    end(progress, "a1", "a2")
    before = progress.status_line(0.0, 200, str)
    progress.note(ParallelismChanged(now=1, before=10, reason="1 key"), 0.0)
    assert before.endswith("complete · 1-3 min left")
    assert progress.status_line(0.0, 200, str).endswith("complete · about 18 min left")


@pytest.mark.parametrize("columns", range(1, 90))
def test_the_line_fits_any_window_and_keeps_the_numbers_longest(columns: int) -> None:
    progress = started(total=10)
    end(progress, "a1", "a2")
    start(progress, "a3", "a4", "a5")
    line = progress.status_line(0.0, columns, lambda item_id: f"LLD-{item_id}")
    assert len(line) <= columns
    if columns >= 4:
        assert "2/10" in line
    if columns >= 19:
        assert line.startswith("[==>       ] 2/10")


def test_labels_that_do_not_fit_are_counted() -> None:
    progress = started(total=10)
    start(progress, "a1", "a2", "a3")
    line = progress.status_line(0.0, 69, lambda item_id: f"LLD-{item_id}")
    assert line == "[>         ] 0/10 workflows complete · 3 running: LLD-a1 LLD-a2 +1"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 0, "under 1 s left"),
        (3.2, 7.9, "3-8 s left"),
        (12, 33, "10-35 s left"),
        (0.5, 33, "under 35 s left"),
        (120, 240, "2-4 min left"),
        (30, 150, "under 3 min left"),
        (180, 180, "about 3 min left"),
        (2 * 3600, 4 * 3600, "2-4 h left"),
    ],
)
def test_a_range_is_rounded_outwards_in_one_unit(low: float, high: float, expected: str) -> None:
    assert range_in_words(low, high) == expected


def test_an_item_that_outlasts_all_others_may_take_as_long_again() -> None:
    finished = Durations()
    for seconds in (10.0, 12.0):
        finished.add(seconds)
    assert seconds_left(finished, [300.0], pending=0, parallel=3) == (0.0, 300.0)


@given(
    st.lists(st.floats(0.001, 10_000), min_size=2, max_size=20),
    st.lists(st.floats(0, 20_000), max_size=10),
    st.integers(0, 1000),
    st.integers(1, 10),
)
@settings(deadline=None, max_examples=100)
def test_the_range_is_always_a_range(seen: list[float], elapsed: list[float], pending: int, parallel: int) -> None:
    finished = Durations()
    for seconds in seen:
        finished.add(seconds)
    low, high = seconds_left(finished, elapsed, pending, parallel)
    assert 0 <= low <= high
    assert range_in_words(low, high).endswith(" left")


def test_the_range_holds_in_most_simulated_runs() -> None:
    hits = sum(_prediction_holds(random.Random(seed)) for seed in range(200))
    assert 170 <= hits < 200


def _prediction_holds(source: random.Random) -> bool:
    """Predict after 8 of 40 items on 4 workers, then let the rest run."""
    durations = [source.lognormvariate(3, 0.5) for _ in range(40)]
    finished = Durations()
    for seconds in durations[:8]:
        finished.add(seconds)
    low, high = seconds_left(finished, [], pending=32, parallel=4)
    free_at = [0.0] * 4
    for seconds in durations[8:]:
        worker = free_at.index(min(free_at))
        free_at[worker] += seconds
    return low <= max(free_at) <= high
