"""The page's JSON, whatever the records say: patches add up to the page, words and numbers are in their bounds."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.dashboard.fold import RunFold, view_of
from agentos.dashboard.payload import Branch, Surroundings, patch, run_page, timeline
from agentos.dashboard.view import STALLED_SECONDS, RunState, RunView
from agentos.events import (
    BudgetNoticed,
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
    Warned,
)
from agentos.outcomes import AWAITING_REVIEW, INTERRUPTED, OUTCOMES
from agentos.preflight import PreflightDone

ITEMS = ("a", "b", "c")
START = RunStarted(workflow="flow", project_dir="/shop", items=ITEMS, parallel=2, pid=1, budget_usd=2.0)
BEGIN = datetime(2026, 11, 18, tzinfo=UTC)

item_ids = st.sampled_from([*ITEMS, "stranger"])
seconds = st.floats(0, 1000, allow_nan=False)
nodes = st.sampled_from(["load", "draft", "review"])
keys = st.sampled_from(["K1", "K2"])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ItemStarted, item_id=item_ids, attempt=st.integers(1, 3), pid=st.just(1)),
    st.builds(NodeStarted, item_id=item_ids, node=nodes),
    st.builds(NodeFinished, item_id=item_ids, node=nodes, seconds=seconds),
    st.builds(CallStarted, item_id=item_ids, node=nodes, model=st.just("google:m"), key_name=keys),
    st.builds(
        CallFinished,
        item_id=item_ids,
        node=nodes,
        model=st.just("google:m"),
        key_name=keys,
        seconds=seconds,
        outcome=st.sampled_from(["ok", "rate_limited", "abandoned", "something new"]),
        cost_usd=st.floats(0, 1),
    ),
    st.builds(ItemWaiting, item_id=item_ids, cause=st.sampled_from(["busy", "limited", "new"]), seconds=seconds),
    st.builds(ItemWaited, item_id=item_ids, cause=st.just("busy"), seconds=seconds),
    st.builds(ItemRetried, item_id=item_ids, attempt=st.integers(1, 3), reason=st.text(max_size=5)),
    st.builds(ItemEnded, item_id=item_ids, outcome=st.sampled_from(OUTCOMES), seconds=seconds),
    st.builds(KeyCoolingDown, key_number=st.just(1), key_name=keys, seconds=seconds),
    st.builds(ControlTaken, act=st.sampled_from(["pause", "resume", "budget"]), by=st.just("ada"), value=seconds),
    st.builds(ControlTaken, act=st.sampled_from(["stop", "retry"]), by=st.just("ada"), target=item_ids),
    st.builds(ControlTaken, act=st.just("retry"), by=st.just("ada"), target=item_ids, dependents=st.tuples(item_ids)),
    st.builds(ParallelismChanged, now=st.integers(0, 3), before=st.just(1), reason=st.just("keys")),
    st.builds(PreflightDone, keys=st.just(("K1", "K2"))),
    st.builds(PoolExhausted, kind=st.sampled_from(["in_use", "limited"])),
    st.builds(PoolResumed, waited_seconds=seconds),
    st.builds(BudgetNoticed, spent_usd=seconds, budget_usd=seconds, needed_usd=st.none() | seconds),
    st.builds(StopRequested, reason=st.just("SIGINT")),
    st.builds(Warned, text=st.text(max_size=5)),
)


def stamped(found: list[Event]) -> list[Stamped]:
    """A record each second and a half."""
    return [
        Stamped(place + 1, (BEGIN + timedelta(seconds=1.5 * place)).isoformat(), "run", event)
        for place, event in enumerate([START, *found])
    ]


def patched(page: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """What a browser does with a patch."""
    items = {item["id"]: item for item in page["items"]} | {item["id"]: item for item in change.get("items", [])}
    blocks = {block["id"]: block for block in page["blocks"]} | {
        block["id"]: block for block in change.get("blocks", [])
    }
    return {
        **page,
        **{name: change[name] for name in ("seq", "clock", "strip", "needs")},
        "stages": change.get("stages", page["stages"]),
        "items": list(items.values()),
        "blocks": list(blocks.values()),
        "keys": change.get("keys", page["keys"]),
        "notes": [*page["notes"], *change.get("notes", [])],
    }


def whole(fold: RunFold, around: Surroundings, now: datetime) -> dict[str, Any]:
    view = fold.view(is_live=True, now=now)
    document = run_page(view, around) | {"blocks": timeline(view)["blocks"]}
    return json.loads(json.dumps(document, allow_nan=False))  # type: ignore[no-any-return]


def without_clock(page: dict[str, Any]) -> dict[str, Any]:
    """What changes by the clock alone is counted up by the browser: how long a span goes on, when a key is back."""
    blocks = [{**block, "words": ""} for block in page["blocks"]]
    keys = [{**key, "words": "", "state": "", "kind": "", "until": None, "reason": ""} for key in page["keys"]]
    return {**page, "blocks": blocks, "keys": keys, "notice": None}


@settings(max_examples=150, deadline=None)
@given(st.lists(events, max_size=40), st.lists(st.integers(0, 41), max_size=4))
def test_patches_add_up_to_the_page(found: list[Event], cuts: list[int]) -> None:
    """Wherever a reader was cut off, and however often."""
    records, fold, around = stamped(found), RunFold(), Surroundings(may_control=True)
    now = BEGIN + timedelta(seconds=100)
    fold.add(records[0])
    page, seen = whole(fold, around, now), records[0].sequence
    for end in [*sorted({1, *cuts}), len(records)]:
        for record in records[seen:end]:
            fold.add(record)
        change = json.loads(json.dumps(patch(fold.view(is_live=True, now=now), around, seen), allow_nan=False))
        page, seen = patched(page, change), max(seen, min(end, len(records)))
    assert without_clock(page) == without_clock(whole(fold, around, now))


def slot_seconds(view: RunView) -> dict[str, float]:
    """What the view keeps count of, from all of its spans."""
    found: defaultdict[str, float] = defaultdict(float)
    for span in view.spans:
        if span.end is None and not view.items[span.item_id].is_running:
            continue  # It waits for something without having started.
        seconds = (view.elapsed if span.end is None else span.end) - span.start
        found[span.kind] += seconds
        found["node"] -= seconds if span.node and span.kind != "node" else 0.0
    return {**found, "node": max(0.0, found["node"])}


@settings(max_examples=150, deadline=None)
@given(st.lists(events, max_size=60), st.floats(0, 5000))
def test_whatever_is_on_record_the_view_is_sound(found: list[Event], later: float) -> None:
    records = stamped(found)
    view = view_of(records, is_live=True, now=BEGIN + timedelta(seconds=later))
    assert view.elapsed >= view.last_at
    assert sum(view.counts.values()) <= len(view.items)
    slots = [item.slot for item in view.items.values() if item.slot is not None]
    assert len(slots) == len(set(slots))
    for span in view.spans:
        assert span.end is None or 0 <= span.start <= span.end
    spent = {kind: seconds for kind, seconds in view.slot_seconds.items() if seconds}
    assert spent == pytest.approx({kind: seconds for kind, seconds in slot_seconds(view).items() if seconds})
    left = view.seconds_left([3.0, 5.0])
    assert left is None or 0 <= left[0] <= left[1]
    assert left is None or view.state is RunState.RUNNING
    assert (view.burn_usd_per_hour or 0.0) >= 0
    lost = view_of(records, is_live=False, now=BEGIN + timedelta(seconds=later))
    assert lost.state is RunState.LOST
    assert lost.elapsed == lost.last_at


def seen(*found: Event, later: float = 0.0, is_live: bool = True, **around: Any) -> dict[str, Any]:
    records = stamped(list(found))
    view = view_of(records, is_live=is_live, now=BEGIN + timedelta(seconds=1.5 * (len(records) - 1) + later))
    return run_page(view, Surroundings(**around))


def test_a_silent_run_with_items_at_work_is_stalled_and_one_that_is_paused_is_not() -> None:
    at_work = [ItemStarted(item_id="a", attempt=1, pid=1), NodeStarted(item_id="a", node="draft")]
    page = seen(*at_work, later=STALLED_SECONDS)
    assert (page["strip"]["words"], page["strip"]["detail"]) == ("Stalled", "nothing recorded for 15m 00s")
    assert page["needs"][0]["kind"] == "stalled"
    assert seen(*at_work, later=STALLED_SECONDS - 5)["strip"]["words"] == "Running"
    paused = [*at_work, ControlTaken(act="pause", by="ada")]
    assert seen(*paused, later=STALLED_SECONDS)["strip"]["words"] == "Paused"


def test_the_time_left_is_a_range_from_past_items_until_this_run_has_its_own() -> None:
    first = ItemStarted(item_id="a", attempt=1, pid=1)
    assert seen(first)["strip"]["eta"] is None
    eta = seen(first, past_seconds=[60.0, 120.0, 90.0])["strip"]["eta"]
    assert 0 <= eta["low"] <= eta["high"]
    assert eta["words"].endswith("left")
    assert seen(first, past_seconds=[60.0, 60.0])["strip"]["usual"]["words"] == "usually 2m 00s for 3 items"


def test_how_many_were_at_work_and_what_held_up_the_others() -> None:
    begun = [event for each in "ab" for event in (start_of(each), NodeStarted(item_id=each, node="draft"))]
    assert seen(*begun)["strip"]["parallel"]["effective"] == ""
    assert seen(*begun, later=600.0)["strip"]["parallel"]["effective"] == "2.0 at work on average"
    waits = ItemWaiting(item_id="b", cause="busy")
    effective = seen(*begun, waits, later=600.0)["strip"]["parallel"]["effective"]
    assert effective == "1.0 at work on average, held up by busy keys"


def test_an_interrupted_item_is_none_that_has_ended() -> None:
    strip = seen(start_of("a"), ItemEnded(item_id="a", outcome=INTERRUPTED, seconds=1.0))["strip"]
    assert (strip["ended"], strip["pending"], strip["counts"][0]["words"]) == (0, 2, "1 interrupted")


def start_of(item_id: str) -> ItemStarted:
    return ItemStarted(item_id=item_id, attempt=1, pid=1)


def test_what_the_last_minutes_cost_per_hour() -> None:
    call = {"item_id": "a", "node": "draft", "model": "google:m", "key_name": "K1"}
    finished = CallFinished(**call, seconds=1.0, outcome="ok", cost_usd=1.0)
    page = seen(CallStarted(**call), finished, later=597.0)
    assert page["strip"]["burn_usd_per_hour"] == 6.0
    assert page["strip"]["spent_usd"] == 1.0
    assert seen(finished, later=3.0)["strip"]["burn_usd_per_hour"] is None
    assert seen(finished, later=597.0, is_live=False)["strip"]["burn_usd_per_hour"] is None


def test_refused_calls_are_those_of_the_last_minutes_while_it_runs_and_all_when_it_is_over() -> None:
    call = {"item_id": "a", "node": "draft", "model": "google:m", "key_name": "K1"}
    refused = CallFinished(**call, seconds=1.0, outcome="rate_limited")
    for later, is_live, told in ((10.0, True, 1), (900.0, True, 0), (900.0, False, 1)):
        assert seen(refused, later=later, is_live=is_live)["strip"]["limited"] == told


def test_a_reached_budget_needs_somebody() -> None:
    reached = BudgetNoticed(spent_usd=1.9, budget_usd=2.0, needed_usd=2.5)
    (need,) = seen(reached, may_control=True)["needs"]
    assert need["text"] == "the budget of $2.00 is reached; the next call needs $2.50"
    assert need["actions"][0]["name"] == "budget"
    (dead,) = (each for each in seen(reached, is_live=False)["needs"] if each["kind"] == "budget")
    assert dead["text"].endswith("Continue with a higher --budget")


def test_an_answered_item_needs_no_second_answer_but_to_be_continued() -> None:
    parked = ItemEnded(item_id="a", outcome=AWAITING_REVIEW, seconds=1.0)
    end = RunEnded(counts={AWAITING_REVIEW: 1}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=3)
    around = {"may_control": True, "resume_command": "agentos lld --all"}
    (asked,) = seen(start_of("a"), parked, end, **around)["needs"]
    assert [each["name"] for each in asked["actions"]] == ["approve", "revise", "open"]
    (answered,) = seen(start_of("a"), parked, end, **around, answered=["a"])["needs"]
    assert answered["text"] == "answered: it continues with the next run"
    assert [each["name"] for each in answered["actions"]] == ["copy", "open"]
    assert answered["command"] == "agentos lld --all"


def test_a_branch_is_told_with_its_size() -> None:
    row = seen(branches={"a": Branch(name="agentos/a", added=3, removed=1)})["items"][0]
    assert row["branch"] == {"name": "agentos/a", "added": 3, "removed": 1}
