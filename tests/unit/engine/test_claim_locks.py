"""Claims: one holder an item, forgotten by the kernel when the last holder is dead."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentos.engine.claims import FileClaims, claim_name, take_claims

HOLDER = """
import os, sys, time
from pathlib import Path
from agentos.engine.claims import FileClaims, claim_name, take_claims
claims = FileClaims(Path(sys.argv[1]))
assert claims.take(sys.argv[2])
if "fork" in sys.argv:
    worker = os.fork()
    if worker == 0:
        os.close(1)  # The test reads to the end of the parent's output.
        time.sleep(600)
    print(worker, flush=True)
else:
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock_path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "claims.lock"


def hold(lock_path: Path, name: str, *flags: str) -> subprocess.Popen[str]:
    """Another process that holds the claim until its stdin ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock_path), name, *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process


def wait_until_taken(claims: FileClaims, name: str) -> None:
    deadline = time.monotonic() + 30
    while not claims.take(name):
        assert time.monotonic() < deadline, "the claim was never given up"
        time.sleep(0.01)


def test_a_claim_is_refused_to_a_second_run_and_only_that_claim(lock_path: Path) -> None:
    with FileClaims(lock_path) as one, FileClaims(lock_path) as other:
        assert one.take("lld/1")
        assert not other.take("lld/1")
        assert other.take("lld/2")
        assert not one.take("lld/2")


def test_taking_ones_own_claim_again_is_fine(lock_path: Path) -> None:
    with FileClaims(lock_path) as claims:
        assert claims.take("a")
        assert claims.take("a")


def test_a_claim_given_back_can_be_taken(lock_path: Path) -> None:
    with FileClaims(lock_path) as one, FileClaims(lock_path) as other:
        one.take("a")
        one.take("b")
        one.give_back("a")
        assert other.take("a")
        assert not other.take("b")


def test_closing_gives_everything_back(lock_path: Path) -> None:
    with FileClaims(lock_path) as one:
        one.take("a")
    with FileClaims(lock_path) as other:
        assert other.take("a")


def test_many_names_never_meet(lock_path: Path) -> None:
    names = [claim_name(kind, str(number)) for kind in ("lld", "issue") for number in range(2_000)]
    with FileClaims(lock_path) as one, FileClaims(lock_path) as other:
        assert all(one.take(name) for name in names[::2])
        assert all(other.take(name) for name in names[1::2])


def test_the_lock_file_is_private_and_its_folder_is_made(lock_path: Path) -> None:
    with FileClaims(lock_path):
        assert lock_path.stat().st_mode & 0o777 == 0o600


def test_a_claim_ends_when_its_process_is_killed(lock_path: Path) -> None:
    with hold(lock_path, "a") as holder, FileClaims(lock_path) as claims:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not claims.take("a")
        holder.kill()
        holder.wait()
        wait_until_taken(claims, "a")


def test_a_claim_lasts_until_the_worker_that_inherited_it_is_gone_too(lock_path: Path) -> None:
    with hold(lock_path, "a", "fork") as coordinator, FileClaims(lock_path) as claims:
        assert coordinator.stdout is not None
        worker = int(coordinator.stdout.readline())
        try:
            coordinator.kill()
            coordinator.wait()
            assert not claims.take("a")
        finally:
            os.kill(worker, signal.SIGKILL)
        wait_until_taken(claims, "a")


def test_any_other_error_is_not_mistaken_for_a_refusal(lock_path: Path) -> None:
    claims = FileClaims(lock_path)
    claims.close()
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        claims.take("a")
    assert caught.value.errno == errno.EBADF


def test_a_run_learns_at_once_which_items_a_live_run_holds(lock_path: Path) -> None:
    with FileClaims(lock_path) as one, FileClaims(lock_path) as other:
        one.take("w/b")
        names = {"a": "w/a", "b": "w/b", "c": "w/c"}
        assert take_claims(other, names, lambda: {"b": "run-1"}) == {"b": "run-1"}
        assert not one.take("w/a")


def test_a_run_waits_for_the_last_worker_of_a_dead_one(lock_path: Path) -> None:
    with hold(lock_path, "w/a") as holder, FileClaims(lock_path) as claims:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        # Another run is alive, but it has other items: who holds this one is about to die.
        others = {"z": "run-1"}
        assert take_claims(claims, {"a": "w/a"}, lambda: others, patience_seconds=0.1) == {"a": ""}
        assert holder.stdin is not None
        holder.stdin.close()
        assert take_claims(claims, {"a": "w/a"}, lambda: others, patience_seconds=30) == {}


def test_a_lock_file_that_was_not_there_before_can_be_discarded_with_its_empty_folders(tmp_path: Path) -> None:
    with FileClaims(tmp_path / "home" / "checkpoints" / "project" / "claims.lock") as claims:
        assert claims.take("a")
        claims.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_another_uses_is_not_discarded(lock_path: Path) -> None:
    with FileClaims(lock_path) as made, FileClaims(lock_path) as other:
        other.take("b")
        made.discard()
        assert lock_path.exists()
        other.give_back("b")
        other.discard()  # It was there before.
        assert lock_path.exists()


def test_who_opened_a_lock_file_before_it_was_discarded_claims_in_the_next_one(lock_path: Path) -> None:
    with FileClaims(lock_path) as made, FileClaims(lock_path) as late:
        number = late.fileno()
        made.discard()
        assert late.take("a")
        assert late.fileno() == number  # Workers inherit it by that number.
        with FileClaims(lock_path) as newest:
            assert not newest.take("a")
            assert newest.take("b")
