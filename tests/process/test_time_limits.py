"""Time: limits, retries, suspension, workers that fall silent, and children that outlive their item."""

from __future__ import annotations

import os
import signal
import time

import pytest
from harness import Sandbox, eventually, of_type


def _mischief(sandbox: Sandbox, *deeds: str) -> None:
    """An item a deed, and one that behaves."""
    naughty = [{"id": deed, "input": {"does": deed}} for deed in deeds]
    sandbox.write_items(*naughty, {"id": "good", "input": {}})


@pytest.mark.every_backend
def test_an_item_over_its_time_fails_with_that_reason_and_others_go_on(sandbox: Sandbox) -> None:
    _mischief(sandbox, "sleeps", "ignores-signals")
    done = sandbox.run("--parallel", "3", "--timeout-seconds", "5", graph="mischief")
    assert done.code == 1
    assert sandbox.outcomes() == {"sleeps": "failed", "ignores-signals": "failed", "good": "completed"}
    for item in ("sleeps", "ignores-signals"):
        assert sandbox.endings()[item]["reason"] == "timed out after 5 s"
        assert sandbox.endings()[item]["error_type"] == "TimedOut"
        assert sandbox.endings()[item]["cause"] == "timed_out"
        assert f"[{item}] FAILED: timed out after 5 s" in done.lines
        assert sandbox.endings()[item]["seconds"] > 4.9
    assert "[COORDINATOR] 1 completed, 2 failed (sleeps, ignores-signals)" in done.lines
    # Their checkpoints stand: with the cause gone, the same command goes on with them.
    sandbox.release("calm")
    again = sandbox.run("--parallel", "3", "--timeout-seconds", "30", "sleeps", "ignores-signals", graph="mischief")
    assert again.code == 0
    assert "[sleeps] resuming after prepare" in again.lines


@pytest.mark.every_backend
def test_retry_tries_a_timed_out_item_again_from_its_checkpoint(sandbox: Sandbox) -> None:
    _mischief(sandbox, "passes-time")
    started = sandbox.start("--retry", "1", "--timeout-seconds", "6", graph="mischief")
    retried = started.wait_for_record("item_retried", item="passes-time")
    sandbox.release("calm")
    done = started.wait()
    assert retried["reason"] == "timed out after 6 s"
    assert done.code == 0, done.stdout
    assert sandbox.endings()["passes-time"]["attempts"] == 2
    assert "[passes-time] attempt 1 failed: timed out after 6 s; trying again" in done.lines
    assert sandbox.notes().count("passes-time prepare") == 1


@pytest.mark.every_backend
def test_retries_run_out(sandbox: Sandbox) -> None:
    _mischief(sandbox, "sleeps")
    done = sandbox.run("--retry", "2", "--timeout-seconds", "3", graph="mischief")
    assert done.code == 1
    assert sandbox.endings()["sleeps"]["attempts"] == 3
    assert [r["attempt"] for r in of_type(sandbox.records(), "item_retried")] == [1, 2]
    assert sandbox.outcomes()["good"] == "completed"


@pytest.mark.every_backend
def test_a_suspended_worker_is_noticed_its_time_stands_still_and_it_goes_on(sandbox: Sandbox) -> None:
    limit = 10.0
    sandbox.write_items({"id": "passes-time", "input": {"does": "passes-time"}})
    started = sandbox.start("--timeout-seconds", str(limit), "--stall-seconds", "4", graph="mischief")
    worker = started.wait_for_record("item_started")["pid"]
    started.wait_for_line("passes-time passes-time")
    os.kill(worker, signal.SIGSTOP)
    suspended = time.monotonic()
    started.wait_for_line("[passes-time] suspended; its time limit waits")
    eventually(lambda: time.monotonic() > suspended + limit + 1, "more than its time")
    assert started.process.poll() is None
    assert sandbox.endings() == {}
    sandbox.release("calm")
    os.kill(worker, signal.SIGCONT)
    done = started.wait()
    assert done.code == 0, done.stdout
    assert sandbox.outcomes() == {"passes-time": "completed"}
    assert done.stdout.count("suspended; its time limit waits") == 1


@pytest.mark.slow
@pytest.mark.every_backend
def test_time_that_the_coordinator_alone_is_suspended_is_not_the_items(sandbox: Sandbox) -> None:
    limit = 6.0
    sandbox.write_items({"id": "a", "input": {"tasks": {"n1": "wait go"}}})
    started = sandbox.start("--timeout-seconds", str(limit), "--stall-seconds", "3")
    sandbox.wait_for_note("a n1 start")
    started.kill(signal.SIGSTOP)
    suspended = time.monotonic()
    sandbox.release("go")
    eventually(lambda: time.monotonic() > suspended + limit + 1, "more than its time")

    started.kill(signal.SIGCONT)

    done = started.wait()
    assert done.code == 0, done.stdout


@pytest.mark.every_backend
def test_a_wedged_worker_is_reported_as_stalled_and_ended(sandbox: Sandbox) -> None:
    _mischief(sandbox, "holds-interpreter")
    done = sandbox.run("--parallel", "2", "--stall-seconds", "5", graph="mischief")
    assert done.code == 1
    assert sandbox.outcomes() == {"holds-interpreter": "failed", "good": "completed"}
    [stalled] = of_type(sandbox.records(), "item_stalled")
    assert stalled["item"] == "holds-interpreter"
    assert stalled["silent_seconds"] >= 5
    assert any(line.startswith("[holds-interpreter] no sign of life for ") for line in done.lines)
    assert sandbox.endings()["holds-interpreter"]["error_type"] == "Stalled"
    assert any(line.startswith("[holds-interpreter] FAILED: stalled: no sign of life for ") for line in done.lines)


@pytest.mark.every_backend
def test_a_child_left_behind_is_reported_ended_and_does_not_hold_the_run(sandbox: Sandbox) -> None:
    deeds = ("leaks-child", "leaks-daemon")
    _mischief(sandbox, *deeds)
    done = sandbox.run(graph="mischief")
    assert done.code == 0, done.stdout
    assert sandbox.outcomes() == dict.fromkeys((*deeds, "good"), "completed")
    children = [int(note.split()[1]) for note in sandbox.notes() if note.startswith("child ")]
    leaks = of_type(sandbox.records(), "children_leaked")
    assert [(leak["item"], leak["pids"]) for leak in leaks] == [
        (deed, [child]) for deed, child in zip(deeds, children, strict=True)
    ]
    for deed, child in zip(deeds, children, strict=True):
        assert f"[{deed}] left 1 process (pid {child}) behind; ended now" in done.lines
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_what_multiprocessing_keeps_for_itself_is_no_leak(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "use_processes"}}})

    assert sandbox.run().code == 0

    assert "processes say [7]" in sandbox.notes()
    assert of_type(sandbox.records(), "children_leaked") == []
