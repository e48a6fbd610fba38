"""The summary counts what happened, in JSON and in words, whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.events import BudgetNoticed, ControlTaken, Event, ItemEnded, NodeStarted, RunEnded, RunStarted, Stamped
from agentos.outcomes import APPROVED, AWAITING_REVIEW, FAILED, INTERRUPTED, SKIPPED, Cause
from agentos.records.summary import RunSummary, parse_summary
from agentos.reporters.summary import Summary, SummaryReporter, summary_lines

START = RunStarted(
    workflow="lld",
    project_dir="/home/user/shop",
    items=("41", "42", "43", "44"),
    parallel=3,
    pid=1,
    label_prefix="LLD-",
    resume_command="lld-workflow --all",
)
ENDINGS = (
    ItemEnded(
        item_id="41",
        outcome=APPROVED,
        seconds=60.0,
        attempts=2,
        input_tokens=12_000,
        output_tokens=345,
        cost_usd=0.25,
    ),
    ItemEnded(item_id="42", outcome=FAILED, seconds=30.0, reason="Invalid spec\nformat", error_type="SpecError"),
    ItemEnded(item_id="43", outcome=INTERRUPTED, seconds=10.0),
)
END = RunEnded(
    counts={APPROVED: 1, FAILED: 1},
    left=("43", "44"),
    wall_seconds=50.0,
    item_seconds=100.0,
    working_seconds=95.0,
    exit_code=130,
)


def summary_of(*events: Event) -> RunSummary:
    summary = Summary()
    for number, event in enumerate(events):
        summary.add(Stamped(number, f"2026-10-05T12:00:{number:02d}.000Z", "run-1", event))
    return summary.result()


def test_the_document_has_everything_a_reader_needs(tmp_path: Path) -> None:
    reporter = SummaryReporter(tmp_path)
    for number, event in enumerate((START, *ENDINGS, END)):
        reporter.handle(Stamped(number, f"2026-10-05T12:00:{number:02d}.000Z", "run-1", event))
    reporter.close()
    document = json.loads((tmp_path / "summary.json").read_bytes())
    items = document.pop("items")
    assert document == {
        "version": 1,
        "run": "run-1",
        "workflow": "lld",
        "project_dir": "/home/user/shop",
        "label_prefix": "LLD-",
        "resume_command": "lld-workflow --all",
        "folder": "",
        "start_over_command": "",
        "models": [],
        "started": "2026-10-05T12:00:00.000Z",
        "ended": "2026-10-05T12:00:04.000Z",
        "total": 4,
        "wall_seconds": 50.0,
        "item_seconds": 100.0,
        "working_seconds": 95.0,
        "speed_up": 0.0,
        "counts": {"approved": 1, "failed": 1},
        "exit_code": 130,
        "left": ["43", "44"],
    }
    assert items[0] == {
        "id": "41",
        "outcome": "approved",
        "cause": "",
        "reason": "",
        "seconds": 60.0,
        "attempts": 2,
        "log": "41.log",
        "input_tokens": 12_000,
        "output_tokens": 345,
        "cost_usd": 0.25,
        "cluster_node": "",
    }
    assert items[1]["reason"] == "Invalid spec format"


def test_a_summary_reads_back_as_it_was_written() -> None:
    summary = summary_of(START, *ENDINGS, END)
    assert parse_summary(summary.to_json().encode()) == summary
    assert json.loads(summary.to_json()) == json.loads(json.dumps(summary.to_document()))


def test_there_is_no_file_before_the_end_and_nothing_else_after_it(tmp_path: Path) -> None:
    reporter = SummaryReporter(tmp_path)
    reporter.handle(Stamped(1, "t", "run-1", START))
    assert list(tmp_path.iterdir()) == []
    reporter.handle(Stamped(2, "t", "run-1", END))
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_failed_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_sync(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_sync)
    reporter = SummaryReporter(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        reporter.handle(Stamped(1, "t", "run-1", END))
    assert list(tmp_path.iterdir()) == []


def test_the_words_say_how_it_went_and_how_to_go_on() -> None:
    assert summary_lines(summary_of(START, *ENDINGS, END), Path("/logs/run-1")) == [
        "[COORDINATOR] 1 approved, 1 failed (LLD-42), 1 interrupted",
        "[LLD-42] FAILED: Invalid spec format",
        "[LLD-42] log: /logs/run-1/42.log",
        "[COORDINATOR] 50.0s in all, 1m 35s of work and 5.0s of waiting",
        "[COORDINATOR] 12,000 tokens in, 345 out, $0.25",
        "[COORDINATOR] 2 items left: LLD-43, LLD-44",
        "[COORDINATOR] Resume with: lld-workflow --all",
        "[COORDINATOR] Logs: /logs/run-1",
    ]


def test_a_run_where_all_went_well_says_little() -> None:
    good = ItemEnded(item_id="41", outcome=APPROVED, seconds=1.0, cost_usd=0.0012)
    end = RunEnded(counts={APPROVED: 1}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=0)
    assert summary_lines(summary_of(replace(START, items=("41",)), good, end)) == [
        "[COORDINATOR] 1 approved",
        "[COORDINATOR] 1.0s in all",
        "[COORDINATOR] $0.0012",
    ]


def test_each_item_is_named_by_the_line_that_helps_it_and_by_no_other() -> None:
    start = replace(
        START, resume_command="agentos run {all:} --items x --budget {budget}", budget_usd=0.5, label_prefix=""
    )
    endings = (
        ItemEnded(item_id="41", outcome=FAILED, seconds=1.0, cause=Cause.CANNOT_CONTINUE, reason="input changed"),
        ItemEnded(item_id="42", outcome=SKIPPED, seconds=0.0, cause=Cause.HELD, reason="held by run x"),
        ItemEnded(item_id="43", outcome=FAILED, seconds=1.0, cause=Cause.UNDECIDED, reason="not approved"),
        ItemEnded(item_id="44", outcome=APPROVED, seconds=1.0),
    )
    end = RunEnded(counts={FAILED: 2}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=1)
    assert summary_lines(summary_of(start, *endings, end))[-3:] == [
        "[COORDINATOR] 1 item left to the run that has it: 42",
        "[COORDINATOR] 41 cannot continue. To start it over: agentos run 41 --items x --budget 0.5 --fresh",
        "[COORDINATOR] Then resume with: agentos run 43 --items x --budget 0.5",
    ]
    short = BudgetNoticed(spent_usd=0.45, budget_usd=0.5, needed_usd=1.2345)
    stopped = RunEnded(counts={}, left=("41",), wall_seconds=1.0, item_seconds=1.0, exit_code=5)
    summary = summary_of(start, short, *(replace(each, outcome=APPROVED) for each in endings[1:]), stopped)
    assert summary.resume_command == "agentos run --items x --budget 1.3"


def test_nothing_is_resumed_where_everything_is_done_whatever_became_of_the_run() -> None:
    done = [ItemEnded(item_id=item, outcome=APPROVED, seconds=1.0) for item in START.items]
    end = RunEnded(counts={APPROVED: 4}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=1)
    assert summary_of(START, *done, end).resume_command == ""


def test_failed_items_alone_are_reason_enough_to_name_the_resume_command() -> None:
    end = RunEnded(counts={FAILED: 1}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=1)
    assert "[COORDINATOR] Resume with: lld-workflow --all" in summary_lines(summary_of(START, ENDINGS[1], end))
    keyless = replace(ENDINGS[1], cause=Cause.NO_USABLE_KEY)
    assert "[COORDINATOR] Then resume with: lld-workflow --all" in summary_lines(summary_of(START, keyless, end))


def test_the_resume_command_is_said_once_and_what_was_interrupted_is_counted() -> None:
    endings = (
        ItemEnded(item_id="41", outcome=FAILED, seconds=1.0),
        ItemEnded(item_id="42", outcome=AWAITING_REVIEW, seconds=1.0),
        ItemEnded(item_id="43", outcome=INTERRUPTED, seconds=1.0),
    )
    counts = {FAILED: 1, AWAITING_REVIEW: 1}
    end = RunEnded(counts=counts, left=("43", "44"), wall_seconds=1.0, item_seconds=3.0, exit_code=130)
    lines = summary_lines(summary_of(START, *endings, end))
    assert lines[0] == "[COORDINATOR] 1 awaits review, 1 failed (LLD-41), 1 interrupted"
    assert "[COORDINATOR] 2 items left: LLD-43, LLD-44" in lines
    assert [line for line in lines if "lld-workflow" in line] == ["[COORDINATOR] Resume with: lld-workflow --all"]


def test_a_run_under_way_has_a_sum_so_far() -> None:
    summary = summary_of(START, NodeStarted(item_id="41", node="N1"), *ENDINGS)
    assert summary.ended == ""
    assert summary.exit_code is None
    assert summary.counts == {APPROVED: 1, FAILED: 1}
    assert summary.left == ("43", "44")
    assert summary.item_seconds == 100.0
    assert summary.wall_seconds == 4.0


def test_an_item_that_somebody_retries_is_left_until_it_ends_again() -> None:
    again = ControlTaken(act="retry", by="ada (ctl)", target="42")
    summary = summary_of(START, *ENDINGS, again)
    assert [item.id for item in summary.items] == ["41", "43"]
    assert summary.left == ("42", "43", "44")
    assert summary.counts == {APPROVED: 1}


def test_what_somebody_changed_under_way_is_in_the_line_that_resumes() -> None:
    start = replace(START, resume_command="lld-workflow --all --parallel 3 --budget {budget}", budget_usd=5.0)
    acts = (
        ControlTaken(act="budget", by="ada (ctl)", value=6.0),
        ControlTaken(act="budget", by="ada (ctl)", value=7.5),
        ControlTaken(act="parallel", by="ada (page)", value=5.0),
    )
    end = RunEnded(counts={}, left=("41",), wall_seconds=1.0, item_seconds=1.0, exit_code=130)
    assert summary_of(start, end).resume_command == "lld-workflow --all --parallel 3 --budget 5"
    assert summary_of(start, *acts, end).resume_command == "lld-workflow --all --parallel 5 --budget 7.5"
    unset = replace(START, resume_command="lld-workflow --all")
    assert summary_of(unset, acts[2], end).resume_command == "lld-workflow --all --parallel 5"


def test_without_any_event_the_sum_is_empty() -> None:
    summary = Summary().result()
    assert (summary.total, summary.left, summary.wall_seconds) == (0, (), 0.0)


def test_a_speed_up_is_of_work_that_is_done_and_waiting_is_no_work() -> None:
    counts = {APPROVED: 2}
    two = [ItemEnded(item_id=name, outcome=APPROVED, seconds=50.0) for name in ("41", "42")]
    waited = RunEnded(
        counts=counts, left=(), wall_seconds=50.0, item_seconds=100.0, working_seconds=20.0, exit_code=0
    )
    assert summary_of(START, *two, waited).speed_up == 0.4
    assert not any("times as fast" in line for line in summary_lines(summary_of(START, *two, waited)))
    worked = replace(waited, working_seconds=90.0)
    assert any("1.8 times as fast as one by one" in line for line in summary_lines(summary_of(START, *two, worked)))
    unfinished = replace(worked, left=("43", "44"), exit_code=130)
    assert not any("times as fast" in line for line in summary_lines(summary_of(START, *two, unfinished)))
