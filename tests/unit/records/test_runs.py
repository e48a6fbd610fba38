"""Runs on disk are found, told apart, followed and pruned; damage and foreign files do no harm."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest

from agentos.cli import runs as runs_command
from agentos.errors import ExitCode, UsageError
from agentos.events import (
    ControlTaken,
    Event,
    ItemEnded,
    ItemStarted,
    NodeStarted,
    RunEnded,
    RunStarted,
    Stamped,
    Warned,
)
from agentos.outcomes import APPROVED, FAILED, INTERRUPTED, SKIPPED, Cause, Outcome, outcome_named
from agentos.preflight import PreflightDone
from agentos.records import past
from agentos.records import runs as run_records
from agentos.records.folders import read_summary, run_dirs
from agentos.records.format import parse_record
from agentos.records.past import past_durations
from agentos.records.runs import (
    Taken,
    create_run_dir,
    find_run,
    follow_audit,
    hold_run_lock,
    holders_of,
    is_live,
    list_runs,
    load_run,
    prune,
    read_audit,
)
from agentos.records.summary import ItemSummary, RunSummary, parse_summary
from agentos.reporters.audit import AuditReporter, record_line
from agentos.reporters.summary import SummaryReporter

NOW = datetime(2026, 10, 5, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLUMNS", raising=False)


class Writer:
    """Writes a run the way the coordinator does."""

    def __init__(self, now: datetime = NOW) -> None:
        self.run_dir = create_run_dir(now)
        self._reporters = (AuditReporter(self.run_dir), SummaryReporter(self.run_dir))
        self._sequence = 0

    def emit(self, *events: Event) -> Writer:
        for event in events:
            self._sequence += 1
            time = f"2026-10-05T12:00:{self._sequence % 60:02d}.000Z"
            for reporter in self._reporters:
                reporter.handle(Stamped(self._sequence, time, self.run_dir.name, event))
        return self

    def close(self) -> Path:
        for reporter in self._reporters:
            reporter.close()
        return self.run_dir


def start(project_dir: str = "/home/user/shop", workflow: str = "lld") -> RunStarted:
    return RunStarted(
        workflow=workflow, project_dir=project_dir, items=("1", "2"), parallel=2, pid=1, label_prefix="LLD-"
    )


def ended(item_id: str, outcome: Outcome = APPROVED, seconds: float = 2.0, reason: str = "") -> ItemEnded:
    return ItemEnded(item_id=item_id, outcome=outcome, seconds=seconds, reason=reason)


def end(left: tuple[str, ...] = ()) -> RunEnded:
    counts: dict[Outcome, int] = {APPROVED: 2 - len(left)}
    return RunEnded(
        counts=counts, left=left, wall_seconds=3, item_seconds=4, working_seconds=4, exit_code=130 if left else 0
    )


def finished_run(now: datetime = NOW, **about: str) -> Path:
    return Writer(now).emit(start(**about), ended("1"), ended("2", seconds=4.0), end()).close()


def unfinished_run(now: datetime = NOW) -> Path:
    return Writer(now).emit(start(), ended("1")).close()


@contextmanager
def alive(run_dir: Path) -> Iterator[None]:
    descriptor = hold_run_lock(run_dir)
    try:
        yield
    finally:
        os.close(descriptor)


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="agentos")
    runs_command.add_options(parser.add_subparsers().add_parser("runs"))
    args = parser.parse_args(["runs", *arguments])
    assert args.handler is runs_command.run
    return int(args.handler(args))


def test_a_run_folder_is_named_by_its_start_in_utc_and_private() -> None:
    run_dir = create_run_dir(NOW.astimezone(timezone(timedelta(hours=5))))
    assert run_dir.name == "20261005-120000-123456"
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700


def test_runs_of_the_same_instant_get_folders_of_their_own() -> None:
    names: list[str] = []
    starting = threading.Barrier(8)

    def create() -> None:
        starting.wait()
        names.append(create_run_dir(NOW).name)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 8


def test_states_tell_runs_apart_and_the_newest_comes_first() -> None:
    finished = finished_run(NOW)
    interrupted = Writer(NOW + timedelta(seconds=1)).emit(start(), ended("1"), end(left=("2",))).close()
    died = unfinished_run(NOW + timedelta(seconds=2))
    live = unfinished_run(NOW + timedelta(seconds=3))
    empty = create_run_dir(NOW + timedelta(seconds=4))
    with alive(live):
        runs = list_runs()
    assert [(run.run_dir, run.state) for run in runs] == [
        (empty, "unfinished"),
        (live, "live"),
        (died, "unfinished"),
        (interrupted, "interrupted"),
        (finished, "finished"),
    ]
    assert [sum(run.counts.values()) for run in runs] == [0, 1, 1, 1, 2]
    assert (runs[1].total, runs[1].workflow, runs[1].wall_seconds) == (2, "lld", None)
    assert (runs[4].total, runs[4].workflow, runs[4].wall_seconds, runs[4].exit_code) == (2, "lld", 3.0, 0)


def test_a_run_killed_before_its_first_record_started_when_its_name_says() -> None:
    empty = create_run_dir(NOW)
    assert datetime.fromisoformat(load_run(empty).started) == NOW.replace(microsecond=NOW.microsecond // 1000 * 1000)


def test_a_run_is_live_only_while_its_process_lives(tmp_path: Path) -> None:
    run_dir = unfinished_run()
    script = (
        "import sys, time; from pathlib import Path; from agentos.records.runs import hold_run_lock;"
        "hold_run_lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(run_dir)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_live(run_dir)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert not is_live(run_dir)


def test_an_interrupted_item_of_a_dying_run_is_not_counted() -> None:
    run_dir = Writer().emit(start(), ended("1"), ended("2", INTERRUPTED)).close()
    assert load_run(run_dir).counts == {APPROVED: 1}


def test_an_item_that_somebody_retries_has_not_ended_nor_has_what_was_skipped_for_it() -> None:
    writer = Writer()
    again = ControlTaken(act="retry", by="ada (ctl)", target="1", dependents=("2",))
    writer.emit(start(), ended("1", FAILED), ended("2", SKIPPED), again)
    assert load_run(writer.run_dir).counts == {}
    taken = Taken(project_dir="/home/user/shop", workflow="lld", items=("1", "2"))
    descriptor = hold_run_lock(writer.run_dir, taken)
    assert holders_of(taken.project_dir, taken.workflow, besides="") == dict.fromkeys(("1", "2"), writer.run_dir.name)
    os.close(descriptor)
    writer.close()


def test_without_a_runs_folder_there_are_no_runs_and_none_is_made(tmp_path: Path) -> None:
    assert list_runs() == []
    assert prune(NOW) == []
    assert not (tmp_path / "home").exists()


def test_foreign_files_are_not_runs() -> None:
    run_dir = finished_run()
    runs = run_dir.parent
    (runs / "notes.txt").write_text("mine")
    (runs / "20261005-120000-999999").write_text("a file, not a folder")
    (runs / "20261005-120000-999998").symlink_to(run_dir)
    (runs / "old-stuff").mkdir()
    assert run_dirs() == [run_dir]
    assert prune(NOW + timedelta(days=365)) == [run_dir.name]
    assert sorted(path.name for path in runs.iterdir()) == [
        "20261005-120000-999998",
        "20261005-120000-999999",
        "notes.txt",
        "old-stuff",
    ]


def test_a_torn_last_line_and_foreign_lines_are_passed_over() -> None:
    run_dir = unfinished_run()
    with (run_dir / "workflow-audit.jsonl").open("ab") as audit:
        audit.write(b'not json\n[1]\n{"type":"item_ended"}\n{"type":"unheard_of","seq":1}\n\xff\n')
        audit.write(b'{"v":1,"seq":3,"time":"t","run":"r","type":"item_en')
    assert [type(stamped.event) for stamped in read_audit(run_dir)] == [RunStarted, ItemEnded]
    assert load_run(run_dir).counts == {APPROVED: 1}


def test_what_a_reason_quotes_is_not_counted_as_an_outcome() -> None:
    writer = Writer()
    reason = 'it said {"type":"item_ended","outcome":"completed"}'
    writer.emit(start(), dataclasses.replace(ended("1"), reason=reason), Warned(text=reason))
    assert load_run(writer.run_dir).counts == {APPROVED: 1}
    writer.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"run": 5}',
        b'{"run": "r", "counts": []}',
        b'{"run": "r", "items": [{"id": "a"}]}',
        b'{"run": "r", "wall_seconds": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_damaged_summary_counts_as_none(content: bytes) -> None:
    run_dir = unfinished_run()
    (run_dir / "summary.json").write_bytes(content)
    assert read_summary(run_dir) is None
    assert load_run(run_dir).run_id == run_dir.name


def test_a_summary_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    document = {
        **RunSummary(run="r", items=(ItemSummary(id="a", outcome=outcome_named("x")),)).to_document(),
        "version": 9,
        "new": [],
    }
    summary = parse_summary(json.dumps(document).encode())
    assert summary is not None
    assert summary.items[0].id == "a"


SAMPLES: dict[str, Any] = {
    "str": "text",
    "str | None": None,
    "int": 3,
    "int | None": 4,
    "float": 1.5,
    "float | None": float("inf"),
    "bool": True,
    "bytes": b"line\n",
    "Any": {"done": [1, None]},
    "tuple[str, ...]": ("a", "b"),
    "tuple[int, ...]": (1, 2),
    "Outcome": outcome_named("published"),
    "Cause": Cause.STALLED,
    "Mapping[Outcome, int]": {APPROVED: 1, outcome_named("published"): 2},
}


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_reads_back_as_it_was_written(kind: Any) -> None:
    event = kind(**{field.name: SAMPLES[str(field.type)] for field in dataclasses.fields(kind)})
    line = record_line(Stamped(7, "2026-10-05T12:00:00.000Z", "r", event))
    if b"block" not in line:
        assert parse_record(line) == Stamped(7, "2026-10-05T12:00:00.000Z", "r", event)


@pytest.mark.parametrize("field", ["seq", "time", "run", "item", "attempt", "resumed_after"])
def test_a_record_with_a_value_of_the_wrong_type_is_no_record(field: str) -> None:
    line = record_line(Stamped(1, "t", "r", ItemStarted(item_id="a", attempt=1, pid=1)))
    assert parse_record(line) is not None
    assert parse_record(json.dumps({**json.loads(line), field: [None]}).encode()) is None


def test_a_run_is_found_by_id_by_unique_beginning_and_as_the_last() -> None:
    first, second = finished_run(NOW), finished_run(NOW + timedelta(days=1))
    assert find_run(first.name) == first
    assert find_run("20261005") == first
    assert find_run("last") == second


def test_an_unknown_run_names_the_nearest_and_an_ambiguous_one_its_candidates() -> None:
    first, second = finished_run(NOW), finished_run(NOW + timedelta(days=1))
    with pytest.raises(UsageError, match=f"no run '20261005-120000-123457'; did you mean {first.name}"):
        find_run("20261005-120000-123457")
    with pytest.raises(UsageError, match=f"ambiguous: {second.name}, {first.name}; give more"):
        find_run("2026")
    with pytest.raises(UsageError, match=f"no run 'zzz'; did you mean {second.name}, {first.name}"):
        find_run("zzz")
    with pytest.raises(UsageError, match="no run ''"):
        find_run("")


def test_with_many_candidates_three_are_named() -> None:
    for day in range(5):
        finished_run(NOW + timedelta(days=day))
    with pytest.raises(UsageError, match="and 2 more; give more"):
        find_run("2026")


def test_a_run_looked_for_before_there_are_any_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="there are no runs"):
        find_run("last")


def test_past_durations_are_those_of_the_same_project_and_workflow(tmp_path: Path) -> None:
    project, other = tmp_path / "shop", tmp_path / "other"
    finished_run(NOW, project_dir=str(project))
    finished_run(NOW + timedelta(days=1), project_dir=str(other))
    finished_run(NOW + timedelta(days=2), project_dir=str(project), workflow="issue")
    unfinished_run(NOW + timedelta(days=3))
    newest = (
        Writer(NOW + timedelta(days=4))
        .emit(start(project_dir=str(project)), ended("1", FAILED, 0.1), ended("2", seconds=9.0), end())
        .close()
    )
    assert past_durations(project, "lld") == [9.0, 2.0, 4.0]
    assert past_durations(project, "lld", before=newest.name) == [2.0, 4.0]


def test_of_a_rehearsal_nothing_follows_for_how_long_a_model_takes(tmp_path: Path) -> None:
    for day, model in enumerate(("offline", "google:large")):
        called = PreflightDone(models=(model,), keys=(), expected_cost_usd=None, past_items=0)
        events = (start(project_dir=str(tmp_path)), called, ended("1", seconds=day + 1.0), end())
        Writer(NOW + timedelta(days=day)).emit(*events).close()
    assert past_durations(tmp_path, "lld", ["offline"]) == [1.0]
    assert past_durations(tmp_path, "lld", ["google:large"]) == [2.0]
    assert past_durations(tmp_path, "lld", ["openai:other"]) == []


def test_past_durations_are_found_behind_many_newer_runs_up_to_a_bound_on_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = tmp_path / "shop", tmp_path / "other"
    finished_run(NOW, project_dir=str(project))
    newer = [finished_run(NOW + timedelta(minutes=number + 1), project_dir=str(other)) for number in range(40)]
    assert past_durations(project, "lld") == [2.0, 4.0]
    size = sum((run_dir / "summary.json").stat().st_size for run_dir in newer)
    monkeypatch.setattr(past, "BYTES_FOR_ESTIMATES", size)
    assert past_durations(project, "lld") == []


def test_past_durations_stay_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "DURATIONS_FOR_ESTIMATES", 3)
    for day in range(3):
        finished_run(NOW + timedelta(days=day), project_dir=str(tmp_path))
    assert len(past_durations(tmp_path, "lld")) == 3
    monkeypatch.setattr(past, "LARGEST_SUMMARY_FOR_ESTIMATES", 10)
    assert past_durations(tmp_path, "lld") == []


def test_pruning_keeps_the_newest_the_recent_and_the_live_however_they_ended() -> None:
    runs = [finished_run(NOW + timedelta(hours=hour)) for hour in range(5)]
    old_and_died = unfinished_run(NOW - timedelta(days=90))
    old_and_live = finished_run(NOW - timedelta(days=80))
    old = finished_run(NOW - timedelta(days=31))
    now = NOW + timedelta(hours=5)
    with alive(old_and_live):
        assert prune(now, keep=100, days=30) == [old.name, old_and_died.name]
        assert prune(now, keep=3, days=30) == [runs[1].name, runs[0].name]
        assert prune(now, keep=3, days=30) == []
        assert set(run_dirs()) == {*runs[2:], old_and_live}
    assert sorted(path.name for path in runs[0].parent.iterdir()) == sorted(path.name for path in run_dirs())


def test_a_removal_cut_short_is_finished_the_next_time() -> None:
    run_dir = finished_run(NOW)
    run_dir.rename(run_dir.with_name(f".pruned-{run_dir.name}"))
    assert run_dirs() == []
    assert prune(NOW) == []
    assert list(run_dir.parent.iterdir()) == []


def test_two_prunings_at_once_remove_each_run_once() -> None:
    expected = [finished_run(NOW - timedelta(days=40 + day)).name for day in range(20)]
    removed: list[str] = []
    threads = [threading.Thread(target=lambda: removed.extend(prune(NOW))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(removed) == sorted(expected)
    assert run_dirs() == []


def test_following_gives_the_past_then_each_record_as_it_comes_until_the_end() -> None:
    writer = Writer()
    seen: list[Stamped] = []
    with alive(writer.run_dir):
        writer.emit(start())
        follower = threading.Thread(
            target=lambda: seen.extend(follow_audit(writer.run_dir, lambda _: time.sleep(0.001)))
        )
        follower.start()
        audit = writer.run_dir / "workflow-audit.jsonl"
        half = record_line(Stamped(2, "t", "r", Warned(text="in two parts")))
        with audit.open("ab", buffering=0) as file:
            file.write(half[:10])
            file.write(half[10:])
        writer.emit(ended("1"), end(), Warned(text="after the end"))
        follower.join(20)
    writer.close()
    assert [type(stamped.event) for stamped in seen] == [RunStarted, Warned, ItemEnded, RunEnded]


def test_following_waits_for_records_of_a_live_run_that_has_written_none() -> None:
    run_dir = create_run_dir(NOW)
    descriptor = hold_run_lock(run_dir)
    naps: list[float] = []

    def die_after_three(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            os.close(descriptor)

    assert list(follow_audit(run_dir, die_after_three)) == []
    assert naps == [0.1] * 3


def test_the_list_is_a_table_with_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    finished_run(NOW)
    unfinished_run(NOW + timedelta(seconds=1))
    assert command() == ExitCode.OK
    heading, unfinished, finished = capsys.readouterr().out.splitlines()
    assert heading.split() == ["RUN", "STATE", "ENDED", "WORKFLOW", "STARTED", "TIME", "RESULT", "PROJECT"]
    assert unfinished.startswith("20261005-120001-123456  unfinished  1/2    lld ")
    assert finished.startswith("20261005-120000-123456  finished    2/2    lld ")
    assert finished.endswith("3.0s  2 approved  shop")


@pytest.mark.parametrize("columns", [22, 40, 80])  # An id is 22 wide, and stays whole.
def test_the_table_is_no_wider_than_the_window(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished_run()
    monkeypatch.setenv("COLUMNS", str(columns))
    command()
    assert 0 < max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_no_runs_are_said_in_words_and_as_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert command() == ExitCode.OK
    assert capsys.readouterr().out.startswith("No runs yet under ")
    assert command("--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = finished_run()
    command("--json")
    (document,) = json.loads(capsys.readouterr().out)
    assert document == {
        "run": run_dir.name,
        "state": "finished",
        "run_dir": str(run_dir),
        "workflow": "lld",
        "project_dir": "/home/user/shop",
        "started": "2026-10-05T12:00:01.000Z",
        "total": 2,
        "counts": {"approved": 2},
        "wall_seconds": 3.0,
        "exit_code": 0,
    }


def test_showing_a_finished_run_tells_items_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    failed = ended("2", FAILED, reason="Invalid spec format")
    counts: dict[Outcome, int] = {APPROVED: 1, FAILED: 1}
    run_end = RunEnded(counts=counts, left=(), wall_seconds=3, item_seconds=4, working_seconds=4, exit_code=1)
    run_dir = Writer().emit(start(), ended("1"), failed, run_end).close()
    assert command("show", "last") == ExitCode.OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"Run {run_dir.name}: failed"
    assert shown[1].startswith("lld in /home/user/shop, started 2026-10-0")
    assert shown[2:] == [
        "[==========] 1/2 workflows complete, 1 failed",
        "ITEM   OUTCOME   TIME    REASON",
        "LLD-1  approved  2.0s",
        "LLD-2  failed    2.0s    Invalid spec format",
        "[COORDINATOR] 1 approved, 1 failed (LLD-2)",
        "[LLD-2] FAILED: Invalid spec format",
        f"[LLD-2] log: {run_dir}/2.log",
        "[COORDINATOR] 3.0s in all, 4.0s of work: 1.3 times as fast as one by one",
        f"[COORDINATOR] Logs: {run_dir}",
    ]


def test_showing_a_run_on_a_cluster_names_the_node_of_each_item(capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (
        ItemStarted(item_id="1", attempt=number, pid=0, cluster_node=node)
        for number, node in ((1, "node-2"), (2, "node-3"))
    )
    run_end = RunEnded(counts={APPROVED: 2}, left=(), wall_seconds=3, item_seconds=4, working_seconds=4, exit_code=0)
    Writer().emit(start(), first, again, ended("1"), ended("2"), run_end).close()
    assert command("show", "last") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[3:6] == [
        "ITEM   OUTCOME   TIME    NODE    REASON",
        "LLD-1  approved  2.0s    node-3",
        "LLD-2  approved  2.0s",
    ]


@pytest.mark.parametrize("arguments", [("show", "last", "--json"), ("--json", "show", "last")])
def test_showing_a_run_under_way_sums_up_its_audit(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = unfinished_run()
    with alive(run_dir):
        assert command(*arguments) == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["left"], document["exit_code"]) == ("live", ["2"], None)
    assert document["items"][0]["id"] == "1"


def test_showing_an_empty_run_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = create_run_dir(NOW)
    assert command("show", run_dir.name) == ExitCode.OK
    assert "unfinished" in capsys.readouterr().out


def test_control_characters_in_records_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "x\x1b[2J\n[COORDINATOR] fake"
    Writer().emit(
        start(project_dir=f"/home/{hostile}", workflow=hostile),
        ended("1", outcome_named(hostile), reason=hostile),
        end(("2",)),
    ).close()
    for arguments in ((), ("show", "last"), ("follow", "last")):
        command(*arguments)
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\n[COORDINATOR] fake" not in shown


def test_an_unknown_run_is_a_usage_error_in_every_verb() -> None:
    finished_run()
    for verb in ("show", "follow"):
        with pytest.raises(UsageError, match="no run 'nope'"):
            command(verb, "nope")


def test_following_a_finished_run_tells_it_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    node = NodeStarted(item_id="1", node="N1_design")
    run_dir = Writer().emit(start(), node, ended("1"), ended("2"), end()).close()
    assert command("follow", run_dir.name) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "[COORDINATOR] 2 items, 2 at a time (graph lld)",
        "[LLD-1] >>> Executing: N1_design",
        "[LLD-1] approved (2.0s)",
        "[COORDINATOR] [=====>    ] 1/2 workflows complete",
        "[LLD-2] approved (2.0s)",
        "[COORDINATOR] [==========] 2/2 workflows complete",
        "[COORDINATOR] 2 approved",
        "[COORDINATOR] 3.0s in all, 4.0s of work: 1.3 times as fast as one by one",
        f"[COORDINATOR] Logs: {run_dir}",
    ]


def test_following_a_run_that_died_says_so_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = unfinished_run()
    assert command("follow", "last") == ExitCode.ITEM_FAILED
    assert capsys.readouterr().out.endswith(
        f"[COORDINATOR] Run {run_dir.name} did not end properly: none of its processes is alive\n"
    )


def test_following_stops_at_ctrl_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_run_dir: Path) -> Iterator[Stamped]:
        raise KeyboardInterrupt

    unfinished_run()
    monkeypatch.setattr(run_records, "follow_audit", interrupted)
    assert command("follow", "last") == ExitCode.INTERRUPTED


def test_prune_says_what_it_removes_and_a_dry_run_removes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    recent, old = finished_run(datetime.now(UTC)), finished_run(datetime.now(UTC) - timedelta(days=31))
    assert command("prune", "--dry-run") == ExitCode.OK
    assert capsys.readouterr().out == f"{old.name}\n1 to remove\n"
    assert old.exists()
    assert command("prune") == ExitCode.OK
    assert capsys.readouterr().out == f"{old.name}\n1 removed\n"
    assert run_dirs() == [recent]


def test_the_help_states_the_retention_policy() -> None:
    assert f"newest {run_records.KEPT_RUNS}" in runs_command.PRUNE_HELP
    assert f"{run_records.KEPT_DAYS} days" in runs_command.PRUNE_HELP


def test_building_the_parser_imports_nothing_heavy() -> None:
    script = "import sys, agentos.cli.runs; print([m for m in sys.modules if m.startswith('agentos.')])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "reporters" not in loaded
    assert "run_records" not in loaded


def test_reporters_and_records_import_no_heavy_library() -> None:
    script = (
        "import sys, agentos.reporters.console, agentos.reporters.audit, agentos.reporters.run_tables;"
        "print([m for m in ('rich', 'pydantic', 'asyncio', 'langgraph') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded == "[]\n"
