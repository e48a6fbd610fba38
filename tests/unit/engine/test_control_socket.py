"""The socket of a run: who may ask, what is answered, and that nonsense harms nobody."""

from __future__ import annotations

import json
import os
import pwd
import select
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentos.engine.control import SOCKET_NAME, ControlServer, RunOver, ask
from agentos.engine.loop import Loop
from agentos.engine.steering import Act, ActRefused, NotYet
from agentos.records.runs import hold_run_lock, is_live


class Run:
    """A loop in a thread, with a socket that notes what it is asked."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.acts: list[Act] = []
        self.refusals: list[ActRefused] = []
        self.loop = Loop()
        self.server = ControlServer(run_dir, self.loop, self._take)
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()

    def _take(self, act: Act) -> dict[str, Any]:
        self.acts.append(act)
        if self.refusals:
            raise self.refusals.pop(0)
        return {"run": "r", "left": ["x" * 100] * 20_000}

    def stop(self) -> None:
        """Take nothing any more."""
        self.loop.post(self.loop.stop)
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self.server.close()
        self.loop.close()


@pytest.fixture(params=["short", "d" * 120])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    run_dir = tmp_path / request.param
    run_dir.mkdir()
    made = Run(run_dir)
    yield made
    made.close()
    assert not (run_dir / SOCKET_NAME).exists()


def test_an_act_arrives_with_who_asked_and_its_answer_is_whole(run: Run) -> None:
    answer = ask(run.run_dir, {"act": "skip", "item": "a", "reason": "too\nlong ", "via": "ctl"}, is_live=is_live)
    assert len(answer["left"]) == 20_000
    user = pwd.getpwuid(os.getuid()).pw_name
    assert run.acts == [Act(name="skip", by=f"{user} (ctl)", item_id="a", reason="too long")]
    assert stat.S_IMODE((run.run_dir / SOCKET_NAME).stat().st_mode) == 0o600


def test_a_program_cannot_name_itself(run: Run) -> None:
    ask(run.run_dir, {"act": "pause", "via": "\x1b[2J"}, is_live=is_live)
    assert run.acts[0].by.endswith(" (program)")


def test_a_refusal_is_told_and_a_run_that_is_starting_is_asked_again(run: Run) -> None:
    run.refusals = [NotYet("starting"), ActRefused("the run is not paused")]
    with pytest.raises(ActRefused, match="not paused"):
        ask(run.run_dir, {"act": "resume"}, is_live=is_live)
    assert len(run.acts) == 2


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b"nonsense", b'{"act": 3}', b'{"act": "budget", "value": "much"}', b"[" * 5_000]
)
def test_what_is_no_act_is_refused_and_the_next_one_is_served(run: Run, line: bytes) -> None:
    connection = socket.socket(socket.AF_UNIX)
    with connection:
        here = Path.cwd()
        os.chdir(run.run_dir)
        try:
            connection.connect(SOCKET_NAME)
        finally:
            os.chdir(here)
        connection.sendall(line + b"\n")
        assert json.loads(connection.makefile().readline())["ok"] is False
    assert ask(run.run_dir, {"act": "status"}, is_live=is_live)["run"] == "r"


def test_nobody_listens_after_the_end(tmp_path: Path) -> None:
    with pytest.raises(RunOver):
        ask(tmp_path, {"act": "status"}, is_live=is_live)


def test_who_asks_while_the_run_ends_hears_that_it_has_ended(tmp_path: Path) -> None:
    """The run hangs up on whoever waits for it at its end; its lock goes a little later."""
    lock = hold_run_lock(tmp_path)
    ending = Run(tmp_path)
    ending.stop()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, tmp_path, {"act": "status"}, is_live=is_live)
        assert select.select([ending.server], [], [], 60.0)[0], "nobody has asked"
        ending.close()
        os.close(lock)
        with pytest.raises(RunOver):
            asked.result(60)
    assert ending.acts == []
