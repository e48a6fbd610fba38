"""Claims of every kind: one holder per item, given back by its owner or by its death."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.engine.claims import Claims, claim_name, claims_of, take_claims

NAME = claim_name("flow", "a")
HOLDER = """
import sys
from pathlib import Path
from agentos.engine.claims import claims_of
claims = claims_of(Path(sys.argv[1]), "run 1")
print(claims.take("flow/a"), flush=True)
sys.stdin.read()
"""
Make = Callable[[], Claims]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    if request.param == "postgres":
        monkeypatch.setenv("AGENTOS_CHECKPOINTS__URL", request.getfixturevalue("postgres").url)
        monkeypatch.setenv("AGENTOS_CHECKPOINTS__PROJECT", f"test-{uuid.uuid4().hex}")
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Make:
    return lambda: claims_of(tmp_path, f"a {kind} run")


@contextmanager
def another_process(project_dir: Path) -> Iterator[subprocess.Popen[Any]]:
    command = [sys.executable, "-c", HOLDER, str(project_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        yield holder
        holder.kill()


def test_an_item_has_one_holder_until_it_is_given_back(make: Make) -> None:
    with make() as one, make() as other:
        assert (one.take(NAME), one.take(NAME)) == (True, True)
        assert not other.take(NAME)
        assert other.take(claim_name("flow", "b"))
        one.give_back(NAME)
        assert other.take(NAME)


def test_what_was_taken_ends_with_who_took_it(make: Make) -> None:
    with make() as one:
        one.take(NAME)
    with make() as other:
        assert other.take(NAME)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_process_holds_nothing(make: Make, tmp_path: Path, how: signal.Signals) -> None:
    with make() as claims:
        with another_process(tmp_path) as holder:
            assert not claims.take(NAME)
            holder.send_signal(how)
            holder.wait(30)
        assert take_claims(claims, {"a": NAME}, dict, patience_seconds=30) == {}


def test_who_holds_an_item_is_told_if_the_claims_know(make: Make, kind: str, tmp_path: Path) -> None:
    import socket

    with make() as claims, another_process(tmp_path):
        held = take_claims(claims, {"a": NAME}, dict, patience_seconds=0.1)
    assert held == {"a": f"run 1 on {socket.gethostname()}" if kind == "postgres" else ""}


def test_each_attempt_has_a_higher_fence_where_there_are_fences(make: Make, kind: str) -> None:
    with make() as claims:
        claims.take(NAME)
        fences = [claims.next_fence(NAME) for _ in range(3)]
    assert fences == ([0, 0, 0] if kind == "file" else sorted(set(fences)))


def test_what_was_never_taken_is_left_as_it_was(make: Make, tmp_path: Path) -> None:
    with make() as claims:
        claims.discard()
    assert not (tmp_path / "home").exists()
