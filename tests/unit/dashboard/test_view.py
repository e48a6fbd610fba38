"""What is shown of a run comes from its records alone: live, finished or killed."""

from __future__ import annotations

from datetime import UTC, datetime

from agentos.dashboard.fold import RunFold, view_of
from agentos.dashboard.view import RunState, RunView
from agentos.events import (
    CallFinished,
    CallStarted,
    ControlTaken,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunStarted,
    Stamped,
    StopRequested,
)
from agentos.outcomes import APPROVED, AWAITING_REVIEW, FAILED, SKIPPED
from agentos.preflight import PreflightDone

START = RunStarted(
    workflow="lld", project_dir="/shop", items=("1", "2", "3"), parallel=2, pid=1, label_prefix="LLD-", budget_usd=5.0
)
BEGUN = (
    ItemStarted(item_id="1", attempt=1, pid=7),
    NodeStarted(item_id="1", node="design"),
    NodeFinished(item_id="1", node="design", seconds=1.0),
    NodeStarted(item_id="1", node="review"),
)


def seen(*events: Event, is_live: bool = True) -> RunView:
    records = [
        Stamped(n, f"2026-10-05T12:00:{n:02d}.000Z", "run-1", event) for n, event in enumerate((START, *events))
    ]
    return view_of(records, is_live=is_live)


def test_a_live_run_says_what_each_item_does() -> None:
    view = seen(*BEGUN)
    item = view.items["1"]
    assert (view.state, view.elapsed, view.ended_count) == (RunState.RUNNING, 4.0, 0)
    assert (item.label, item.node, item.started) == ("LLD-1", "review", 1.0)
    assert [(span.node, span.start, span.end) for span in item.spans] == [("design", 2.0, 3.0), ("review", 4.0, None)]
    assert view.running == [item]


def test_keys_are_known_with_their_groups_before_one_is_used_also_by_the_names_of_an_earlier_version() -> None:
    known = PreflightDone(keys=("K1", "K2"), key_providers=("google", "openai"), key_groups=("team", "K2"))
    for event, told in (
        (known, [("google", "team"), ("openai", "K2")]),
        (PreflightDone(keys=("K1", "K2")), [("", ""), ("", "")]),
    ):
        uses = seen(event).key_uses
        assert [(use.provider, use.group) for use in uses.values()] == told


def test_a_limit_that_one_key_met_is_that_of_its_group_and_a_rejection_its_own() -> None:
    known = PreflightDone(keys=("K1", "K2", "K3"), key_providers=("google",) * 3, key_groups=("team", "team", "K3"))
    for state, told in (("rate_limited", ["cooling", "cooling", "free"]), ("rejected", ["free", "rejected", "free"])):
        met = KeyCoolingDown(
            key_number=2, key_name="K2", seconds=60.0, reason=state, state=state, provider="google", group="team"
        )
        view = seen(known, met)
        assert [use.state(view.elapsed) for use in view.key_uses.values()] == told


def test_a_call_is_waited_for_made_and_counted() -> None:
    waiting = ItemWaiting(item_id="1", cause="busy", seconds=0.5)
    begun = CallStarted(item_id="1", node="review", model="google:m", key_name="k")
    ended = CallFinished(
        item_id="1",
        node="review",
        model="google:m",
        key_name="k",
        seconds=1,
        outcome="ok",
        input_tokens=7,
        output_tokens=3,
        cost_usd=0.5,
    )
    wait = seen(*BEGUN, waiting).items["1"].waits_for
    assert wait is not None
    assert (wait.kind, wait.start) == ("busy", 4.5)
    calling = seen(*BEGUN, waiting, ItemWaited(item_id="1", cause="busy", seconds=1), begun, begun, ended).items["1"]
    assert (calling.waits_for, calling.calling_since) == (None, [8.0])
    done = seen(*BEGUN, begun, begun, ended, ended).items["1"]
    assert (done.calling_since, done.input_tokens, done.output_tokens, done.cost_usd) == ([], 14, 6, 1.0)


def test_a_worker_that_is_gone_is_in_no_call_and_waits_for_nothing() -> None:
    begun = CallStarted(item_id="1", node="review", model="google:m", key_name="k")
    waiting = ItemWaiting(item_id="1", cause="busy")
    for end in (
        ItemRetried(item_id="1", attempt=1, reason="crashed"),
        ItemEnded(item_id="1", outcome=FAILED, seconds=1),
    ):
        item = seen(*BEGUN, begun, waiting, end).items["1"]
        assert (item.calling_since, item.waits_for) == ([], None)


def test_the_same_records_without_a_process_are_a_lost_coordinator() -> None:
    calls = CallStarted(item_id="1", node="review", model="google:m", key_name="k")
    waits = ItemWaiting(item_id="1", cause="busy")
    view = seen(*BEGUN, calls, waits, is_live=False)
    item = view.items["1"]
    assert (view.state, item.outcome, item.is_running) == (RunState.LOST, None, True)
    # Nothing is under way any more.
    assert (item.node, item.waits_for, item.calling_since, view.key_uses["k"].state(view.elapsed)) == (
        "",
        None,
        [],
        "free",
    )
    assert [(span.node, span.end, span.is_done) for span in item.spans] == [
        ("design", 3.0, True),
        ("review", 6.0, False),
    ]
    assert (item.tries[-1].end, item.tries[-1].reason) == (6.0, "the coordinator's process died")


def test_one_word_says_how_a_live_run_is() -> None:
    pause = ControlTaken(act="pause", by="ada (ctl)", reason="lunch")
    keys = PoolExhausted(kind="limited")
    assert seen(pause).state is RunState.PAUSED
    assert seen(pause).paused_by == "ada (ctl)"
    assert seen(pause, ControlTaken(act="resume", by="ada (ctl)")).state is RunState.RUNNING
    assert seen(keys).state is RunState.WAITING
    assert seen(keys, PoolResumed(waited_seconds=3.0)).state is RunState.RUNNING
    assert seen(pause, StopRequested(reason="SIGINT")).state is RunState.STOPPING


def test_an_ended_run_is_done_and_knows_what_needs_somebody() -> None:
    view = seen(
        *BEGUN,
        ItemEnded(item_id="1", outcome=APPROVED, seconds=4.0, input_tokens=10, output_tokens=5, cost_usd=0.5),
        ItemEnded(item_id="2", outcome=FAILED, seconds=1.0, reason="boom", error_type="ValueError"),
        ItemEnded(item_id="3", outcome=AWAITING_REVIEW, seconds=1.0),
        RunEnded(counts={}, left=(), wall_seconds=7.0, item_seconds=6.0, exit_code=1),
        is_live=False,
    )
    assert (view.state, view.exit_code, view.ended_count) == (RunState.DONE, 1, 3)
    assert [item.id for item in view.needing_somebody] == ["3", "2"]
    assert (view.cost_usd, view.tokens) == (0.5, 15)
    assert view.items["1"].spans[-1].end == 5.0
    assert view.items["1"].node == ""


def test_a_retried_item_counts_by_its_last_end() -> None:
    view = seen(
        ItemStarted(item_id="1", attempt=1, pid=7),
        NodeStarted(item_id="1", node="design"),
        ItemRetried(item_id="1", attempt=1, reason="crashed"),
        ItemEnded(item_id="1", outcome=FAILED, seconds=1.0),
        ControlTaken(act="retry", by="ada (ctl)", target="1"),
        ItemStarted(item_id="1", attempt=2, pid=8),
    )
    assert view.items["1"].outcome is None
    assert view.counts == {}
    assert view.items["1"].notices == ["attempt 1: crashed"]
    assert view.notes[-1].text == "retry 1, by ada (ctl)"


def test_what_was_skipped_for_an_item_waits_for_its_turn_as_soon_as_that_one_is_retried() -> None:
    view = seen(
        ItemEnded(item_id="1", outcome=FAILED, seconds=1.0),
        ItemEnded(item_id="2", outcome=SKIPPED, seconds=0.0, attempts=0, reason="dependency 1 failed"),
        ControlTaken(act="retry", by="ada (ctl)", target="1", dependents=("2",)),
    )
    assert view.counts == {}
    assert view.items["2"].reason == ""
    assert view.notes[-1].text == "retry 1 with 2, by ada (ctl)"


def test_what_changes_the_run_is_kept() -> None:
    view = seen(
        ParallelismChanged(now=1, before=2, reason="1 usable key slot left"),
        ControlTaken(act="budget", by="ada (ctl)", value=9.0),
    )
    assert view.parallel == 1
    assert view.budget_usd == 9.0
    assert [note.text for note in view.notes] == ["1 at a time: 1 usable key slot left", "budget 9, by ada (ctl)"]


def test_records_of_nobody_and_broken_times_are_passed_over() -> None:
    records = [
        Stamped(0, "nonsense", "run-1", START),
        Stamped(1, "2026-10-05T12:00:00.000Z", "run-1", NodeStarted(item_id="stranger", node="x")),
    ]
    view = view_of(records, is_live=False)
    assert list(view.items) == ["1", "2", "3"]
    assert view.elapsed == 0.0


def test_a_live_run_goes_on_between_its_records_and_a_dead_one_does_not() -> None:
    fold, later = RunFold(), datetime(2026, 10, 5, 12, 1, 0, tzinfo=UTC)
    fold.add(Stamped(0, "2026-10-05T12:00:00.000Z", "run-1", START))
    fold.add(Stamped(1, "2026-10-05T12:00:10.000Z", "run-1", BEGUN[0]))
    assert fold.view(is_live=True, now=later).elapsed == 60.0
    assert fold.view(is_live=False, now=later).elapsed == 10.0
    fold.add(Stamped(2, "2026-10-05T12:00:11.000Z", "run-1", BEGUN[1]))
    assert fold.view(is_live=True).items["1"].node == "design"
