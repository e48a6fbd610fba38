"""How a run stands, in lines: the words of the page, for a terminal."""

from __future__ import annotations

from agentos.dashboard.fold import view_of
from agentos.dashboard.status_lines import count_lines, status_lines
from agentos.dashboard.view import RunView
from agentos.events import (
    BudgetNoticed,
    ControlTaken,
    Event,
    ItemEnded,
    ItemStarted,
    ItemWaiting,
    NodeStarted,
    RunStarted,
    Stamped,
)
from agentos.outcomes import AWAITING_REVIEW, FAILED, INTERRUPTED


def view_with(*more: Event, is_live: bool = True, budget: float | None = None) -> RunView:
    events = [
        RunStarted(workflow="lld", project_dir="/p", items=("1", "2"), parallel=2, pid=1, budget_usd=budget),
        ItemStarted(item_id="1", attempt=1, pid=1),
        NodeStarted(item_id="1", node="N1_design"),
        *more,
    ]
    stamped = [Stamped(n + 1, f"2026-11-18T02:00:{n:02d}.000Z", "r", event) for n, event in enumerate(events)]
    return view_of(stamped, is_live=is_live)


def test_a_running_item_is_told_with_what_it_does() -> None:
    lines = status_lines(view_with(ItemWaiting(item_id="1", cause="busy", seconds=1.0)), 100)
    assert lines == ["Running, 0:03 so far, 2 at a time", "1  N1_design  waiting for a key 0:01  0:02"]


def test_a_pause_a_budget_and_what_needs_somebody() -> None:
    paused = ControlTaken(act="pause", by="ada (page)", reason="lunch")
    waits = ItemEnded(item_id="2", outcome=AWAITING_REVIEW, seconds=1.0, reason="draft gate")
    reached = BudgetNoticed(spent_usd=1.0, budget_usd=1.0, needed_usd=1.5)
    lines = status_lines(view_with(paused, waits, reached, budget=1.0), 100)
    assert lines[0] == "Paused by ada (page): lunch, 0:05 so far, $0.00 of $1.00 spent, 2 at a time"
    assert [line for line in lines if line.startswith("Needs you")] == [
        "Needs you: paused by ada (page): lunch",
        "Needs you: the budget of $1.00 is reached; the next call needs $1.50. Continue with a higher --budget",
        "Needs you: 1 item: 2",
    ]


def test_a_dead_run_has_nothing_under_way() -> None:
    lines = status_lines(view_with(is_live=False), 100)
    assert lines[0].startswith("Coordinator lost: its process died")
    assert not any("N1_design" in line for line in lines)


def test_an_item_that_somebody_wants_again_waits_for_its_turn_and_needs_nobody() -> None:
    failed = ItemEnded(item_id="1", outcome=FAILED, seconds=1.0, reason="it broke")
    view = view_with(failed, ControlTaken(act="retry", by="ada (ctl)", target="1"))
    assert count_lines(view) == ["0 of 2 items ended", "2 items not started: 1, 2"]
    assert [line for line in status_lines(view, 100)[1:] if line] == []


def test_what_has_ended_was_stopped_or_has_not_started_is_counted() -> None:
    assert count_lines(view_with()) == ["0 of 2 items ended", "1 item not started: 2"]
    stops = ControlTaken(act="stop", by="ada (ctl)", target="1")
    ends = ItemEnded(item_id="1", outcome=INTERRUPTED, seconds=1.0)
    other = ItemEnded(item_id="2", outcome=AWAITING_REVIEW, seconds=1.0)
    assert count_lines(view_with(stops, ends, other)) == [
        "1 of 2 items ended: 1 awaits review",
        "1 item stopped: 1",
    ]
