"""The same command after a stop or a failure: what is done stays done until the whole batch is through."""

from __future__ import annotations

import signal

import pytest
from harness import Sandbox


def _starts(sandbox: Sandbox, item_id: str) -> int:
    return sum(note == f"{item_id} n1 start" for note in sandbox.notes())


def _markers(sandbox: Sandbox) -> list[str]:
    return sorted(path.name for path in sandbox.home.rglob("*.done"))


def test_after_a_failure_what_is_not_done_runs_again_and_of_the_rest_only_what_has_a_new_input(
    sandbox: Sandbox,
) -> None:
    items = (
        {"id": "good"},
        {"id": "bad", "input": {"tasks": {"n2": "fail_once x"}}},
        {"id": "later"},
        {"id": "dependent", "depends_on": ["good"], "input": {"tasks": {"n1": "fail_once y"}}},
    )
    sandbox.write_items(*items, {"id": "changed"})
    assert sandbox.run().code == 1
    sandbox.write_items(*items, {"id": "changed", "input": {"tasks": {"n3": "print new"}}})
    again = sandbox.run()
    assert again.code == 0
    assert "[good] completed in run" in again.stdout
    assert [_starts(sandbox, item) for item in ("good", "bad", "later", "changed")] == [1, 1, 1, 2]
    assert "5 completed" in again.stdout


@pytest.mark.slow
def test_once_the_batch_is_through_the_same_command_starts_it_over(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "one"}, {"id": "two"})
    assert sandbox.run().code == 0
    assert _markers(sandbox) == []
    assert sandbox.run().code == 0
    assert _starts(sandbox, "one") == 2


def test_after_a_stop_finished_items_do_not_run_again(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "quick"}, {"id": "slow", "input": {"tasks": {"n2": "wait go"}}})
    started = sandbox.start()
    sandbox.wait_for_note("slow n2 start")
    started.kill(signal.SIGINT)
    assert started.wait().code == 130
    sandbox.release("go")
    dry = sandbox.run("--dry-run")
    assert "done in run" in dry.stdout
    assert sandbox.run().code == 0
    assert (_starts(sandbox, "quick"), _starts(sandbox, "slow")) == (1, 1)
    assert _markers(sandbox) == []


def test_fresh_does_everything_again(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "good"}, {"id": "bad", "input": {"tasks": {"n2": "raise no"}}})
    assert sandbox.run().code == 1
    assert sandbox.run("--fresh").code == 1
    assert _starts(sandbox, "good") == 2
