"""What is worth telling somebody who does not watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.events import (
    ControlTaken,
    Event,
    ItemEnded,
    ItemRetried,
    NodeStarted,
    OutputProduced,
    PoolExhausted,
    RunEnded,
    RunFaulted,
    RunStarted,
    Stamped,
)
from agentos.outcomes import APPROVED, AWAITING_REVIEW, FAILED, NEEDS_REVISION, SKIPPED, Outcome
from agentos.reporters.notifications import MOST_TOLD, Notice, Occasions, document_of, text_of, title_of
from agentos.setting_rules import NOTIFY_REASONS

RUN_DIR = Path("/runs/20261005")
START = RunStarted(workflow="lld", project_dir="/shop", items=("1", "2"), parallel=2, pid=1, label_prefix="LLD-")


def end(outcome: Outcome, item_id: str = "1", reason: str = "no") -> ItemEnded:
    return ItemEnded(item_id=item_id, outcome=outcome, seconds=1, reason=reason)


def done(exit_code: int = 0) -> RunEnded:
    return RunEnded(counts={APPROVED: 2}, left=(), wall_seconds=1, item_seconds=1, exit_code=exit_code)


def told(*events: Event, on: tuple[str, ...] = NOTIFY_REASONS) -> list[Notice]:
    occasions = Occasions(on, RUN_DIR)
    found = [occasions.take(Stamped(1, "2026-10-05T12:00:00.000Z", "run", event)) for event in (START, *events)]
    return [notice for notice in found if notice is not None]


@pytest.mark.parametrize(
    ("event", "reason", "text"),
    [
        (end(AWAITING_REVIEW), "needs_review", "awaits review: no"),
        (end(NEEDS_REVISION, reason=""), "needs_review", "needs revision"),
        (end(FAILED), "failed", "failed: no"),
        (RunFaulted(reason="disk full"), "failed", "disk full"),
        (
            PoolExhausted(kind="limited"),
            "paused",
            "Credential pool exhausted. Pausing all workflows... that need a key: all keys limited",
        ),
        (ControlTaken(act="pause", by="ada"), "paused", "Paused by ada."),
        (done(), "done", "2 approved"),
    ],
)
def test_what_needs_somebody_is_told_with_its_reason(event: Event, reason: str, text: str) -> None:
    [notice] = told(event)
    assert notice.reason == reason
    assert notice.text.startswith(text)
    assert told(event, on=tuple(set(NOTIFY_REASONS) - {reason})) == []


@pytest.mark.parametrize(
    "event",
    [
        end(APPROVED),
        end(SKIPPED),
        NodeStarted(item_id="1", node="n"),
        PoolExhausted(kind="in_use"),
        PoolExhausted(kind="limited", waiting=("1",)),
        ControlTaken(act="resume", by="ada"),
        done(130),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_is_well_or_known_is_not(event: Event) -> None:
    assert told(event) == []


def test_nothing_is_told_twice() -> None:
    limited, pause = PoolExhausted(kind="limited"), ControlTaken(act="pause", by="ada")
    assert len(told(end(FAILED), end(FAILED), end(FAILED, "2"), limited, limited, pause, pause)) == 4


def test_an_item_comes_with_its_log_and_the_last_lines_of_its_last_attempt() -> None:
    [notice] = told(
        OutputProduced(item_id="1", block=b"first attempt\n"),
        ItemRetried(item_id="1", attempt=1, reason="crashed"),
        OutputProduced(item_id="1", block=b"\x1b[31mred\x1b[0m\n"),
        OutputProduced(item_id="2", block=b"another\n"),
        end(FAILED),
    )
    assert (notice.item_id, notice.label, notice.outcome) == ("1", "LLD-1", "failed")
    assert (notice.log, notice.log_tail) == ("/runs/20261005/1.log", "red\n")


def test_the_document_has_the_first_in_full_and_the_others_beside_it() -> None:
    notices = told(*(end(FAILED, str(number)) for number in range(30)))
    document = document_of(notices, START, RUN_DIR)
    assert list(document)[:8] == [
        *("version", "run", "run_dir", "workflow", "project_dir", "reason", "title", "count"),
    ]
    assert (document["run"], document["reason"], document["title"]) == ("20261005", "failed", "30 items failed")
    assert (document["item"], document["outcome"], document["text"]) == ("0", "failed", "failed: no")
    assert [each["label"] for each in document["others"]] == [f"LLD-{n}" for n in range(1, MOST_TOLD)]
    assert document["count"] == 30


@pytest.mark.parametrize(
    ("events", "title", "text"),
    [
        ([end(FAILED)], "LLD-1 failed", "LLD-1: failed: no"),
        ([RunFaulted(reason="disk full")], "Run stopped by a fault", "disk full"),
        ([end(AWAITING_REVIEW), end(AWAITING_REVIEW, "2")], "2 items need you", "LLD-1: awaits review: no\nLLD-2: "),
        ([end(NEEDS_REVISION)], "LLD-1 needs you", "LLD-1: needs revision: no"),
        ([ControlTaken(act="pause", by="ada")], "Run paused", "Paused by ada"),
        ([done()], "Run done", "2 approved"),
        ([done(1)], "Run ended", "2 approved"),
    ],
)
def test_people_read_a_title_and_a_line_for_each(events: list[Event], title: str, text: str) -> None:
    notices = told(*events)
    assert title_of(notices) == title
    assert text_of(notices).startswith(text)


def test_of_many_only_some_have_a_line() -> None:
    assert text_of(told(*(end(FAILED, str(number)) for number in range(9)))).splitlines()[-1] == "and 4 more"
