"""The contract of #106: callables on threads, graphs on processes, keys, stops and results, as callers see them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.engine.stopping import GRACE, GraceTimes
from agentos.errors import InvalidIdentifier, UsageError
from agentos.events import (
    Event,
    ItemEnded,
    ItemStarted,
    KeyCoolingDown,
    NodeStarted,
    PoolExhausted,
    PoolResumed,
    StopRequested,
    Warned,
)
from agentos.outcomes import FAILED
from agentos.paths import runs_dir
from agentos.processes.host import parent_of
from agentos.workflows.parallel import CredentialCoordinator, ParallelCoordinator, sanitize_identifier
from agentos.workflows.parallel import coordinator as coordinator_module
from agentos.workflows.parallel.coordinator import ParallelRunConfig, StopReason
from agentos.workflows.parallel.input_sanitizer import build_checkpoint_db_path, sanitize_issue_number

DEADLINE_SECONDS = 300.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AGENTOS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def quiet(_event: Event) -> None:
    """A listener that has nothing to say."""


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


# Callables on threads.


def test_three_items_run_side_by_side_and_all_are_reported() -> None:
    together = threading.Barrier(3)

    def work(item: str, key: str | None) -> None:
        assert key is None
        together.wait(DEADLINE_SECONDS)

    stats, results = ParallelCoordinator(3, on_event=quiet).execute_parallel(["a", "b", "c"], work, str)
    assert (stats.total, stats.completed, stats.success_count, stats.failed) == (3, 3, 3, 0)
    assert sorted(result.item_id for result in results) == ["a", "b", "c"]
    assert all(result.success and result.error is None and result.duration_seconds >= 0 for result in results)


def test_never_more_than_max_workers_run_and_no_place_stays_empty() -> None:
    lock, running, most = threading.Lock(), 0, 0
    pairs = threading.Barrier(2)

    def work(item: int, key: str | None) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pairs.wait(DEADLINE_SECONDS)  # Passes only when a second one runs beside it.
        with lock:
            running -= 1

    stats, _ = ParallelCoordinator(2, on_event=quiet).execute_parallel(range(20), work, str)
    assert (stats.success_count, most) == (20, 2)


def test_items_of_any_kind_are_named_by_the_given_function() -> None:
    seen: list[dict[str, int]] = []
    items = [{"n": 1}, {"n": 2}]
    _, results = ParallelCoordinator(1, on_event=quiet).execute_parallel(
        items, lambda item, key: seen.append(item), lambda item: f"item-{item['n']}"
    )
    assert seen == items
    assert [result.item_id for result in results] == ["item-1", "item-2"]


def test_without_items_there_is_nothing_to_do() -> None:
    stats, results = ParallelCoordinator(on_event=quiet).execute_parallel([], lambda item, key: None, str)
    assert (stats.total, stats.completed, results) == (0, 0, [])


class Unprintable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("this error does not pickle")


@pytest.mark.parametrize(
    "error", [ValueError("Invalid spec format"), SystemExit(3), KeyboardInterrupt(), Unprintable()]
)
def test_one_items_error_is_its_own(error: BaseException) -> None:
    def work(item: str, key: str | None) -> None:
        if item == "bad":
            raise error

    events: list[Event] = []
    stats, results = ParallelCoordinator(3, on_event=events.append).execute_parallel(["a", "bad", "c"], work, str)
    assert (stats.completed, stats.success_count, stats.failed) == (3, 2, 1)
    [failed] = [result for result in results if not result.success]
    assert (failed.item_id, failed.error_type) == ("bad", type(error).__name__)
    assert failed.error == (str(error) or type(error).__name__)
    assert "raise error" in failed.traceback
    [ended] = [event for event in events if isinstance(event, ItemEnded) and event.item_id == "bad"]
    assert (ended.outcome, ended.reason, ended.error_type) == (FAILED, failed.error, failed.error_type)


def test_results_are_printed_when_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    def work(item: str, key: str | None) -> None:
        if item == "LLD-42":
            raise ValueError("Invalid spec format")

    ParallelCoordinator(1).execute_parallel(["LLD-41", "LLD-42"], work, str)
    assert "[LLD-42] FAILED: Invalid spec format" in capsys.readouterr().out


def test_unsafe_ids_are_refused_before_anything_runs() -> None:
    called: list[str] = []
    with pytest.raises(InvalidIdentifier, match="Invalid identifier"):
        ParallelCoordinator(on_event=quiet).execute_parallel(
            ["ok", "../etc/passwd"], lambda item, key: called.append(item), str
        )
    assert called == []


def test_a_dry_run_lists_the_items_and_does_nothing(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    called: list[str] = []
    threads = threading.active_count()
    stats, results = ParallelCoordinator(3).execute_parallel(
        [f"item-{n}" for n in range(5)], lambda item, key: called.append(item), str, dry_run=True
    )
    printed = capsys.readouterr().out
    assert "Dry run mode" in printed
    assert all(f"item-{n}" in printed for n in range(5))
    assert (stats.total, stats.completed, results, called) == (5, 0, [], [])
    assert threading.active_count() == threads
    assert not home.exists()


# How many at once.


def test_an_error_that_cannot_be_shown_fails_its_item_and_ends_the_run() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text for you")

    def work(item: str, _key: str | None) -> None:
        if item == "b":
            raise UnprintableError

    stats, results = ParallelCoordinator(2, on_event=lambda _event: None).execute_parallel("abc", work, str)
    assert (stats.success_count, stats.failed) == (2, 1)
    [failed] = [result for result in results if not result.success]
    assert (failed.item_id, failed.error_type) == ("b", "UnprintableError")


def test_more_workers_than_the_maximum_are_capped_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert ParallelCoordinator(max_workers=20).max_workers == ParallelCoordinator.MAX_PARALLELISM == 10
    assert "Warning" in (printed := capsys.readouterr().out)
    assert "10" in printed
    assert ParallelCoordinator(max_workers=10).max_workers == 10
    assert capsys.readouterr().out == ""


def test_three_is_the_default() -> None:
    assert ParallelCoordinator().max_workers == ParallelCoordinator.DEFAULT_PARALLELISM == 3


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", True, None])
def test_any_other_number_of_workers_is_a_usage_error(wrong: object) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        ParallelCoordinator(max_workers=wrong)  # type: ignore[arg-type]


# Keys.


def test_each_call_holds_a_key_of_its_own_and_gives_it_back() -> None:
    pool = CredentialCoordinator(["key-one", "key-two"], on_event=quiet)
    held: set[str] = set()
    lock = threading.Lock()

    def work(item: int, key: str | None) -> None:
        assert key is not None
        with lock:
            assert key not in held
            held.add(key)
        time.sleep(0.001)
        with lock:
            held.remove(key)

    stats, _ = ParallelCoordinator(5, pool, on_event=quiet).execute_parallel(range(40), work, str)
    assert stats.success_count == 40
    assert pool.get_available_count() == 2


def test_a_failing_call_gives_its_key_back_too() -> None:
    pool = CredentialCoordinator(["only-key"], on_event=quiet)

    def work(item: int, key: str | None) -> None:
        raise ValueError(item)

    stats, _ = ParallelCoordinator(2, pool, on_event=quiet).execute_parallel(range(4), work, str)
    assert stats.failed == 4
    assert pool.get_available_count() == 1


def test_more_items_than_keys_wait_for_keys_and_exhaustion_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    pool = CredentialCoordinator(["key-one", "key-two"])
    lock, text = threading.Lock(), [""]

    def printed() -> str:
        with lock:
            text[0] += capsys.readouterr().out
            return text[0]

    def work(item: int, key: str | None) -> None:
        while "exhausted" not in printed():
            time.sleep(0.005)

    stats, _ = ParallelCoordinator(5, pool, on_event=quiet).execute_parallel(range(5), work, str)
    assert stats.success_count == 5
    paused, resumed = "[COORDINATOR] Credential pool exhausted. Pausing all workflows...", "[COORDINATOR] Keys are"
    said = printed().splitlines()
    # Once a pause, whatever the number of those who wait; a late item may meet a second one.
    assert [line.startswith(paused) for line in said] == [True, False] * (len(said) // 2)
    assert [line.startswith(resumed) for line in said] == [False, True] * (len(said) // 2)
    assert "key-" not in printed()


@pytest.mark.parametrize("value", ["true", "on"])
def test_a_simulated_429_marks_that_key_alone_and_the_call_goes_on_with_another(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTOS_SIMULATE_429", value)
    pool = CredentialCoordinator(["key-one", "key-two"])
    used: list[str | None] = []
    available: list[int] = []

    def work(item: str, key: str | None) -> None:
        used.append(key)
        available.append(pool.get_available_count())

    stats, _ = ParallelCoordinator(1, pool, on_event=quiet).execute_parallel(["a"], work, str)
    assert stats.success_count == 1
    [key] = used
    assert key in ("key-one", "key-two")
    # The one that met the 429 is neither available nor held.
    assert available == [0]
    assert not pool.is_pool_exhausted()
    printed = capsys.readouterr().out
    limited = 1 if key == "key-two" else 2
    assert f"[COORDINATOR] Key {limited} rate-limited, back in" in printed
    assert "key-one" not in printed
    assert "key-two" not in printed


def test_a_simulated_429_on_the_only_key_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_SIMULATE_429", "true")
    events: list[Event] = []
    pool = CredentialCoordinator(["only-key"], on_event=events.append)
    used: list[str | None] = []
    stats, _ = ParallelCoordinator(1, pool, on_event=quiet).execute_parallel(
        ["a"], lambda item, key: used.append(key), str
    )
    assert (stats.success_count, used) == (1, ["only-key"])
    kinds = [type(event) for event in events]
    assert kinds.index(KeyCoolingDown) < kinds.index(PoolExhausted) < kinds.index(PoolResumed)


def test_without_the_variable_no_429_is_simulated() -> None:
    events: list[Event] = []
    pool = CredentialCoordinator(["only-key"], on_event=events.append)
    ParallelCoordinator(1, pool, on_event=quiet).execute_parallel(["a"], lambda item, key: None, str)
    assert events == []


def test_a_pool_without_keys_fails_the_items_and_says_why() -> None:
    pool = CredentialCoordinator([], on_event=quiet)
    stats, [result] = ParallelCoordinator(1, pool, on_event=quiet).execute_parallel(["a"], lambda i, k: None, str)
    assert stats.failed == 1
    assert (result.error, result.error_type) == ("Failed to acquire credential", "RuntimeError")


def test_both_vocabularies_of_the_pool_mean_the_same_keys() -> None:
    events: list[Event] = []
    pool = CredentialCoordinator(["key-one", "key-two"], on_event=events.append)
    first = pool.acquire(timeout=1)
    second = pool.reserve("worker-2")
    assert {first, second} == {"key-one", "key-two"}
    assert first is not None
    assert second is not None
    assert pool.is_pool_exhausted()
    assert pool.reserve("worker-3") is None
    assert pool.acquire(timeout=0.01) is None
    assert not pool.wait_for_availability(timeout_seconds=0.01)
    pool.release(second)
    assert pool.wait_for_availability(timeout_seconds=1)
    assert pool.get_available_count() == 1
    pool.report_rate_limit(second, 60)
    assert pool.get_available_count() == 0
    pool.release(first, rate_limited=True, backoff_seconds=60)
    assert pool.get_available_count() == 0
    assert not pool.is_pool_exhausted()
    assert len([event for event in events if isinstance(event, KeyCoolingDown)]) == 2


# Stopping.


def test_stop_keeps_finished_items_and_leaves_the_rest_for_later() -> None:
    release = threading.Event()

    def on_event(event: Event) -> None:
        match event:
            case ItemStarted(item_id="b"):
                coordinator.request_stop(StopReason.INTERRUPT)
            case StopRequested():
                release.set()

    coordinator = ParallelCoordinator(2, on_event=on_event)
    stats, _ = coordinator.execute_parallel("abcd", lambda item, key: release.wait(5), str)

    assert stats.completed == 2
    assert coordinator.get_checkpoints() == ["c", "d"]


def test_a_call_that_still_waits_for_a_key_is_not_begun_after_a_stop() -> None:
    called: list[str] = []
    stopped = threading.Event()

    def on_pool(event: Event) -> None:
        if isinstance(event, PoolExhausted):
            coordinator.request_stop(StopReason.REQUEST)

    def on_event(event: Event) -> None:
        if isinstance(event, StopRequested):
            stopped.set()

    def work(item: str, key: str | None) -> None:
        called.append(item)
        stopped.wait(DEADLINE_SECONDS)

    pool = CredentialCoordinator(["only-key"], on_event=on_pool)
    coordinator = ParallelCoordinator(2, pool, on_event=on_event)
    stats, _ = coordinator.execute_parallel(["a", "b", "c"], work, str)
    assert len(called) == stats.completed == 1
    assert coordinator.get_checkpoints() == [item for item in ("a", "b", "c") if item not in called]
    assert pool.get_available_count() == 1


def test_shutdown_from_another_thread_gives_up_on_a_call_that_never_returns(tmp_path: Path) -> None:
    begun, never = threading.Event(), threading.Event()

    def work(item: str, key: str | None) -> None:
        begun.set()
        never.wait(DEADLINE_SECONDS)

    coordinator = ParallelCoordinator(1, on_event=quiet)
    outcome: list[int] = []
    thread = in_thread(lambda: outcome.append(coordinator.execute_parallel("ab", work, str)[0].completed))
    assert begun.wait(DEADLINE_SECONDS)
    coordinator.shutdown(timeout_seconds=0.1)
    thread.join(DEADLINE_SECONDS)
    assert outcome == [0]
    assert coordinator.get_checkpoints() == ["a", "b"]
    # The call returns at last, to a run that is long over: nothing hears it and no file takes harm.
    with (tmp_path / "innocent").open("wb") as innocent:
        never.set()
        in_thread(lambda: None).join()
        assert innocent.tell() == 0
    assert (tmp_path / "innocent").stat().st_size == 0


def test_of_two_interrupts_in_a_row_the_second_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "GRACE", GraceTimes(worker=600.0))  # Far longer than a test may take.
    stops: list[bool] = []
    never = threading.Event()

    def on_event(event: Event) -> None:
        match event:
            case ItemStarted():
                coordinator._handle_shutdown_signal(signal.SIGINT, None)
                coordinator._handle_shutdown_signal(signal.SIGINT, None)
            case StopRequested(at_once=at_once):
                stops.append(at_once)

    coordinator = ParallelCoordinator(1, on_event=on_event)
    coordinator.execute_parallel("ab", lambda item, key: never.wait(600.0), str)
    assert stops == [False, True]
    assert coordinator.get_checkpoints() == ["a", "b"]
    never.set()


def test_stopping_when_nothing_runs_does_nothing() -> None:
    coordinator = ParallelCoordinator(on_event=quiet)
    coordinator.request_stop(StopReason.KILL)
    coordinator.shutdown()
    stats, _ = coordinator.execute_parallel("ab", lambda item, key: None, str)
    assert stats.completed == 2
    assert coordinator.get_checkpoints() == []


def test_signal_handlers_stand_around_the_run_only() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    coordinator = ParallelCoordinator(on_event=quiet)
    assert [signal.getsignal(number) for number in numbers] == before
    during: list[object] = []
    coordinator.execute_parallel("a", lambda item, key: during.extend(map(signal.getsignal, numbers)), str)
    assert not set(map(id, during)) & set(map(id, before))
    assert [signal.getsignal(number) for number in numbers] == before


def test_handlers_are_restored_even_when_the_listener_fails() -> None:
    before = signal.getsignal(signal.SIGINT)

    def on_event(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ParallelCoordinator(on_event=on_event).execute_parallel("a", lambda item, key: None, str)
    assert signal.getsignal(signal.SIGINT) is before


def test_off_the_main_thread_it_works_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def run() -> None:
        coordinator = ParallelCoordinator(2, on_event=quiet)
        stats, _ = coordinator.execute_parallel(
            "abc", lambda item, key: seen.append(signal.getsignal(signal.SIGINT)), str
        )
        seen.append(stats.success_count)

    in_thread(run).join(DEADLINE_SECONDS)
    assert seen == [before, before, before, 3]


INTERRUPTED = """
import os, signal, sys, threading
from agentos.workflows.parallel import ParallelCoordinator, coordinator as coordinator_module
from agentos.engine.stopping import GraceTimes
from agentos.events import ItemStarted, StopRequested
from agentos.reporters.console import PrintingListener

drain, never = threading.Event(), threading.Event()
shown = PrintingListener()
if "patient" in sys.argv:
    coordinator_module.GRACE = GraceTimes(worker=600.0)

def on_event(event):
    shown(event)
    if isinstance(event, StopRequested) and "drain" in sys.argv:
        drain.set()
    sys.stdout.flush()

def work(item, key):
    os.write(1, f"working on {item}\\n".encode())  # One write: lines of two threads stay whole.
    (drain if "drain" in sys.argv else never).wait(600)

before = signal.getsignal(signal.SIGINT)
coordinator = ParallelCoordinator(2, on_event=on_event)
stats, results = coordinator.execute_parallel([f"i{n}" for n in range(5)], work, str)
print("completed", stats.completed, "left", *coordinator.get_checkpoints())
print("restored", signal.getsignal(signal.SIGINT) is before)
"""


def interrupted(mode: str, *signals: signal.Signals) -> list[str]:
    """Lines of a real process that got each signal when the one before it had been heard."""
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, mode], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        awaited = "working on i1"
        waiting = list(signals)
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if waiting and (line.startswith("working on i1") if awaited else "Shutting down" in line):
                awaited = ""
                process.send_signal(waiting.pop(0))
        assert process.wait(DEADLINE_SECONDS) == 0
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_real_signal_drains_running_calls_and_starts_no_other(number: signal.Signals) -> None:
    lines = interrupted("drain", number)
    assert "[COORDINATOR] Shutting down... waiting for workers to checkpoint" in lines
    assert "completed 2 left i2 i3 i4" in lines
    assert "restored True" in lines
    assert sorted(line for line in lines if line.startswith("working")) == ["working on i0", "working on i1"]


def test_a_second_real_interrupt_ends_the_run_at_once_whatever_the_calls_do() -> None:
    lines = interrupted("patient", signal.SIGINT, signal.SIGINT)
    assert "completed 0 left i0 i1 i2 i3 i4" in lines
    assert "restored True" in lines


def test_one_real_interrupt_ends_the_run_whatever_the_calls_do() -> None:
    assert GRACE.give_up_after < 5.0  # As promised.
    lines = interrupted("never", signal.SIGINT)
    assert "completed 0 left i0 i1 i2 i3 i4" in lines


# Ids and paths.


def test_issue_numbers_follow_the_rules_of_every_id() -> None:
    assert sanitize_issue_number("42") == sanitize_identifier("42") == "42"
    for wrong in ("../42", "4 2", "", "42\n"):
        with pytest.raises(ValueError, match="Invalid identifier"):
            sanitize_issue_number(wrong)


def test_a_database_path_is_below_the_home_and_keyed_by_project(home: Path, tmp_path: Path) -> None:
    one = build_checkpoint_db_path("lld", "42", tmp_path / "one")
    other = build_checkpoint_db_path("lld", "42", tmp_path / "other")
    assert one.name == other.name == "lld_workflow_42.db"
    assert one.parent != other.parent
    assert one.is_relative_to(home / "checkpoints")
    assert not home.exists()
    for workflow, item in (("../lld", "42"), ("lld", "../42")):
        with pytest.raises(ValueError, match="Invalid identifier"):
            build_checkpoint_db_path(workflow, item)


# Graphs on processes.

FLOW = """
import os, time
from pathlib import Path
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    wait: bool
    fail: bool
    pid: int

def first(state):
    return {"pid": os.getpid()}

def second(state):
    if state.get("fail"):
        raise ValueError("Invalid spec format")
    while state.get("wait") and not Path("go").exists():
        time.sleep(0.01)
    assert state["pid"] == os.getpid() or Path("go").exists()
    return {}

graph = StateGraph(State)
graph.add_node("first", first)
graph.add_node("second", second)
graph.add_edge(START, "first")
graph.add_edge("first", "second")
graph.add_edge("second", END)
if Path("hang").exists():
    time.sleep(600)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "flow.py").write_text(FLOW)
    (folder / "agentos.toml").touch()
    monkeypatch.chdir(folder)
    return folder


def config(items: list[str], **more: object) -> ParallelRunConfig:
    made: ParallelRunConfig = {
        "max_parallelism": 3,
        "dry_run": False,
        "workflow_type": "review",
        "pending_items": items,
        "graph": "flow.py:graph",
    }
    made.update(more)  # type: ignore[typeddict-item]
    return made


def databases(home: Path) -> list[str]:
    return sorted(path.name for path in home.glob("checkpoints/*/*.db"))


def test_a_run_of_three_items_completes_and_removes_their_databases(home: Path, project: Path) -> None:
    events: list[Event] = []
    coordinator = ParallelCoordinator(config(["1", "2", "3", "2"]), on_event=events.append)
    report = coordinator.run()
    assert report == {
        "total": 3,
        "completed": 3,
        "failed": 0,
        "in_progress": 0,
        "pending": 0,
        "failed_items": [],
        "completed_items": ["1", "2", "3"],
    }
    assert databases(home) == []
    assert coordinator.get_checkpoints() == []
    pids = {event.pid for event in events if isinstance(event, ItemStarted)}
    assert len(pids) == 3
    assert os.getpid() not in pids


def test_a_failed_item_is_reported_and_keeps_its_database(home: Path, project: Path) -> None:
    events: list[Event] = []
    coordinator = ParallelCoordinator(config(["good", "bad"], inputs={"bad": {"fail": True}}), on_event=events.append)
    report = coordinator.run()
    assert (report["completed_items"], report["failed_items"]) == (["good"], ["bad"])
    assert databases(home) == ["review_workflow_bad.db"]
    [ended] = [event for event in events if isinstance(event, ItemEnded) and event.item_id == "bad"]
    assert (ended.error_type, ended.reason) == ("ValueError", "Invalid spec format")
    assert "raise ValueError" in ended.traceback


def test_shutdown_from_another_thread_ends_the_run_in_time_and_the_next_run_resumes(
    home: Path, project: Path
) -> None:
    """`run` is off the main thread here, so that `shutdown` is called from another."""
    waiting = {"a": {"wait": True}, "b": {"wait": True}, "c": {"wait": True}}
    in_second: set[str] = set()
    both = threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, NodeStarted) and event.node == "second":
            in_second.add(event.item_id)
            if len(in_second) == 2:
                both.set()

    coordinator = ParallelCoordinator(config(["a", "b", "c"], inputs=waiting, max_parallelism=2), on_event=on_event)
    reports: list[object] = []
    thread = in_thread(lambda: reports.append(coordinator.run()))
    assert both.wait(DEADLINE_SECONDS)
    coordinator.shutdown(timeout_seconds=5)
    thread.join(DEADLINE_SECONDS)
    assert reports == [
        {
            "total": 3,
            "completed": 0,
            "failed": 0,
            "in_progress": 0,
            "pending": 3,
            "failed_items": [],
            "completed_items": [],
        }
    ]
    assert coordinator.get_checkpoints() == ["a", "b", "c"]
    assert databases(home) == ["review_workflow_a.db", "review_workflow_b.db"]

    (project / "go").touch()
    events: list[Event] = []
    again = ParallelCoordinator(config(["a", "b", "c"], inputs=waiting), on_event=events.append).run()
    assert again["completed"] == 3
    resumed = {event.item_id: event.resumed_after for event in events if isinstance(event, ItemStarted)}
    assert resumed == {"a": "first", "b": "first", "c": None}
    assert databases(home) == []


def test_a_stop_while_the_fork_server_loads_again_starts_nothing_more(home: Path, project: Path) -> None:
    events: list[Event] = []

    def on_event(event: Event) -> None:
        events.append(event)
        match event:
            case NodeStarted(item_id="a", node="second"):
                (project / "hang").touch()
                started = next(e for e in events if isinstance(e, ItemStarted))
                server = parent_of(started.pid)
                assert server is not None
                assert server != os.getpid()
                os.kill(server, signal.SIGKILL)
            case Warned(text=text) if "fork server was killed" in text:
                threading.Timer(0.1, lambda: coordinator.request_stop(StopReason.REQUEST)).start()
            case StopRequested():
                (project / "hang").unlink()

    coordinator = ParallelCoordinator(
        config(["a", "b"], inputs={"a": {"wait": True}}, max_parallelism=1), on_event=on_event
    )
    report = coordinator.run()
    assert (report["completed"], report["failed"], report["pending"]) == (0, 0, 2)
    assert coordinator.get_checkpoints() == ["a", "b"]
    stop = next(n for n, event in enumerate(events) if isinstance(event, StopRequested))
    assert not [event for event in events[stop:] if isinstance(event, ItemStarted)]


def test_a_shutdown_while_the_run_is_put_together_is_heard(home: Path, project: Path) -> None:
    (project / "hang").touch()
    coordinator = ParallelCoordinator(config(["a"]), on_event=quiet)
    reports: list[object] = []
    thread = in_thread(lambda: reports.append(coordinator.run()))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (runs_dir().is_dir() and list(runs_dir().iterdir())):
        assert time.monotonic() < deadline
    coordinator.request_stop(StopReason.REQUEST)
    thread.join(DEADLINE_SECONDS)
    assert len(reports) == 1
    assert databases(home) == []


def test_a_dry_run_of_a_config_lists_its_items_and_leaves_no_trace(
    capsys: pytest.CaptureFixture[str], home: Path, project: Path
) -> None:
    report = ParallelCoordinator(config(["a", "b"], dry_run=True)).run()
    assert (report["total"], report["pending"], report["completed"]) == (2, 2, 0)
    assert "Dry run mode" in capsys.readouterr().out
    assert not home.exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"graph": "nowhere.py:graph"}, "nowhere.py"),
        ({"graph": "flow.py:nothing"}, "no attribute 'nothing'"),
        ({"workflow_type": "../escape"}, "Invalid identifier"),
        ({"pending_items": ["../a"]}, "Invalid identifier"),
        ({"inputs": {"a": {"unknown": 1}}}, "no key 'unknown'"),
        ({"max_parallelism": 0}, "at least 1"),
    ],
)
def test_a_config_that_cannot_be_used_is_a_usage_error(
    home: Path, project: Path, wrong: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        ParallelCoordinator(config(["a"], **wrong), on_event=quiet).run()
    assert list(home.glob("logs/parallel/*")) == []
    assert databases(home) == []


def test_a_workflow_nobody_registered_is_a_usage_error(project: Path) -> None:
    unknown = config(["a"], workflow_type="nonsense")
    del unknown["graph"]
    with pytest.raises(UsageError, match="Unknown workflow type 'nonsense'"):
        ParallelCoordinator(unknown, on_event=quiet).run()


def test_run_needs_a_config() -> None:
    with pytest.raises(UsageError, match="ParallelRunConfig"):
        ParallelCoordinator(3, on_event=quiet).run()
