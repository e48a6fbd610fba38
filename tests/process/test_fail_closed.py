"""A run that cannot keep its records or checkpoints stops in good order; one item's fault never makes it do so."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import AGENTOS, DEADLINE_SECONDS, Finished, Sandbox, no_process_left, of_type, records

# A mount namespace of its own: the small file system is seen by the command alone and is gone when it ends.
PRIVATE_MOUNTS = (["unshare", "-rm"], ["unshare", "-m"])
SCRIPT = """
mkdir -p "$WHERE" || exit 90
mount -t tmpfs -o "$OPTIONS" tmpfs "$WHERE" || exit 91
"$@"
code=$?
cp -r "$AGENTOS_HOME" "$KEPT"
exit $code
"""


@functools.cache
def private_mount() -> list[str]:
    for command in PRIVATE_MOUNTS:
        attempt = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        try:
            if subprocess.run(attempt, capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            continue
    pytest.skip("needs a mount namespace, as root or as any user")


def run_on_small_disk(
    sandbox: Sandbox, where: Path, options: str, *more: str
) -> tuple[Finished, list[dict[str, Any]]]:
    """The command with a small or read-only file system at `where`, and the records it could keep."""
    kept = sandbox.root / "kept"
    done = subprocess.run(
        [*private_mount(), "sh", "-c", SCRIPT, "sh", str(AGENTOS), *sandbox.arguments(*more)],
        cwd=sandbox.project,
        env={**sandbox.environment, "WHERE": str(where), "OPTIONS": options, "KEPT": str(kept)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode not in (90, 91), done.stderr
    no_process_left(sandbox.home)
    return Finished(done.returncode, done.stdout, done.stderr), records(kept)


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


def test_a_full_disk_under_the_audit_stops_the_run_and_the_next_run_goes_on(sandbox: Sandbox) -> None:
    rest = [item(f"rest{n}") for n in range(3)]
    sandbox.write_items(item("small"), item("loud", n2="print_kilobytes 600"), *rest)

    done, kept = run_on_small_disk(sandbox, sandbox.home / "logs", "size=64k")

    assert done.code == 1
    assert "[COORDINATOR] FAULT: cannot write the audit log: No space left on device" in done.stdout
    assert "[COORDINATOR] Resume with: agentos run" in done.stdout
    assert done.stderr == ""
    assert [r["item"] for r in of_type(kept, "item_ended")][:1] == ["small"]
    assert "rest2 n1 start" not in sandbox.notes()

    # Checkpoints were on a disk with room: of what was finished nothing runs again.
    left = [name for name in ("loud", *(r["id"] for r in rest)) if f"[{name}] completed" not in done.stdout]
    before = sandbox.notes()
    assert sandbox.run(*left).code == 0
    assert sandbox.outcomes() == dict.fromkeys(left, "completed")
    again = [note for note in sandbox.notes()[len(before) :] if note in before and note.endswith(" end")]
    assert len(again) <= 1  # The node in flight.


def test_a_full_disk_under_a_checkpoint_stops_the_run_with_what_there_is(sandbox: Sandbox) -> None:
    big = {"id": "big", "input": {"reason": "x" * 600_000}}
    sandbox.write_items(item("small"), big, item("never"))

    done, kept = run_on_small_disk(sandbox, sandbox.home / "checkpoints", "size=512k")

    assert done.code == 1
    assert "[COORDINATOR] FAULT: cannot write the checkpoint: database or disk is full" in done.stdout
    endings = {r["item"]: r["outcome"] for r in of_type(kept, "item_ended")}
    assert endings == {"small": "completed", "big": "interrupted"}
    [ended] = of_type(kept, "run_ended")
    assert ended["left"] == ["big", "never"]
    assert ended["exit_code"] == 1
    assert not [note for note in sandbox.notes() if note.startswith("never")]


def test_a_fault_that_several_items_meet_is_said_once(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"big{n}", "input": {"reason": "x" * 600_000}} for n in range(3)))

    done, kept = run_on_small_disk(sandbox, sandbox.home / "checkpoints", "size=512k", "--parallel", "3")

    assert done.code == 1
    reasons = [record["reason"] for record in of_type(kept, "run_faulted")]
    assert reasons, done.stdout
    assert len(set(reasons)) == len(reasons)


def test_a_done_item_that_cannot_be_noted_keeps_its_checkpoint_and_no_node_runs_again(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"), item("never"))

    done, kept = run_on_small_disk(sandbox, sandbox.home / "batches", "ro")

    assert done.code == 1
    assert "[COORDINATOR] FAULT: cannot note that a is done: Read-only file system" in done.stdout
    assert {r["item"]: r["outcome"] for r in of_type(kept, "item_ended")} == {"a": "completed"}

    assert sandbox.run().code == 0
    assert [sandbox.notes().count(f"a {node} start") for node in ("n1", "n2", "n3")] == [1, 1, 1]
    assert sandbox.databases() == []


@pytest.mark.parametrize("place", [".", "checkpoints", "logs"])
def test_a_read_only_home_is_said_in_one_line_before_anything_starts(sandbox: Sandbox, place: str) -> None:
    sandbox.write_items(item("a"))

    done, _ = run_on_small_disk(sandbox, sandbox.home / place, "ro")

    assert done.code == 2
    [line] = done.stderr.splitlines()
    assert str(sandbox.home) in line
    assert "Read-only file system" in line
    assert "AGENTOS_HOME" in line
    assert sandbox.notes() == []


def test_an_items_own_full_disk_or_database_error_fails_that_item_alone(sandbox: Sandbox) -> None:
    sandbox.write_items(item("disk", n2="own_disk_full"), item("database", n2="own_database_full"), item("fine"))

    done = sandbox.run("--parallel", "2")

    assert done.code == 1
    assert "FAULT" not in done.stdout
    assert sandbox.outcomes() == {"disk": "failed", "database": "failed", "fine": "completed"}
    assert sandbox.endings()["disk"]["error_type"] == "OSError"
    assert sandbox.endings()["database"]["error_type"] == "OperationalError"


def test_a_checkpoint_that_one_item_alone_cannot_write_is_that_items_fault(sandbox: Sandbox) -> None:
    sandbox.write_items(item("limited", n2="limit_files 1000"), item("fine"))

    done = sandbox.run()

    assert done.code == 1
    assert "FAULT" not in done.stdout
    assert sandbox.outcomes() == {"limited": "failed", "fine": "completed"}
    assert "cannot write the checkpoint" in sandbox.endings()["limited"]["reason"]


def test_an_audit_that_somebody_removed_is_a_fault_and_nothing_is_resumed_where_all_is_done(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n3="wait go"))
    run = sandbox.start()
    sandbox.wait_for_note("a n3 start")
    (sandbox.run_dirs()[0] / "workflow-audit.jsonl").unlink()
    sandbox.release("go")
    done = run.wait()
    assert done.code == 1
    assert "FAULT: cannot write the audit log: somebody removed, replaced" in done.stdout
    assert "[COORDINATOR] 1 completed" in done.lines
    assert "resume with" not in done.stdout.casefold()
