"""The user's command is run beside the run: real processes, what they get, and that none is left."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually, processes_with

from agentos.events import ItemEnded, RunEnded, RunStarted, Stamped, Warned
from agentos.launch.notify import Notifier
from agentos.outcomes import APPROVED, FAILED
from agentos.settings import Notify

START = RunStarted(workflow="w", project_dir="/p", items=("1", "2"), parallel=1, pid=1, label_prefix="LLD-")
DONE = RunEnded(counts={APPROVED: 1}, left=(), wall_seconds=1, item_seconds=1, exit_code=0)
_KEEP = """
import os, sys
open(sys.argv[2], "w").write(repr(dict(os.environ)))
open(sys.argv[1], "a").write(sys.stdin.read())
"""


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        self.told_path = tmp_path / "told"
        self.environ_path = tmp_path / "environ"
        self.tmp_path = tmp_path
        self.failures: list[str] = []
        self.notifier: Notifier | None = None

    def make(self, *command: str, desktop: bool = False, gather_seconds: float = 0.0, **environ: str) -> Notifier:
        mark = {"NOTIFY_TEST": str(self.tmp_path)}
        self.notifier = Notifier(
            Notify(command=command, desktop=desktop),
            self.tmp_path,
            {"PATH": os.environ["PATH"], **mark, **environ},
            redact=lambda text: text.replace("secret", "******"),
            on_failure=self.failures.append,
            gather_seconds=gather_seconds,
        )
        return self.notifier

    def keeping(self, **options: Any) -> Notifier:
        return self.make(sys.executable, "-c", _KEEP, str(self.told_path), str(self.environ_path), **options)

    def emit(self, *events: RunStarted | ItemEnded | RunEnded | Warned) -> None:
        assert self.notifier is not None
        for event in events:
            self.notifier.handle(Stamped(1, "2026-10-05T12:00:00.000Z", "run", event))

    def told(self) -> list[dict[str, Any]]:
        text = self.told_path.read_text() if self.told_path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    assert processes_with("NOTIFY_TEST", tmp_path) == []


def failed(item_id: str) -> ItemEnded:
    return ItemEnded(item_id=item_id, outcome=FAILED, seconds=1, reason="no")


def test_a_command_gets_what_happened_as_json_and_the_environment_it_was_given(bench: Bench) -> None:
    notifier = bench.keeping(COLOUR="blue")
    bench.emit(START, failed("1"))
    eventually(bench.told, "a notification")
    bench.emit(DONE)
    notifier.finish()
    assert [(each["reason"], each["label"], each["text"]) for each in bench.told()] == [
        ("failed", "LLD-1", "failed: no"),
        ("done", None, "1 approved"),
    ]
    environ = bench.environ_path.read_text()
    assert "'COLOUR': 'blue'" in environ
    assert "AGENTOS_HOME" not in environ
    assert bench.failures == []


def test_what_happens_together_is_told_together(bench: Bench) -> None:
    notifier = bench.keeping(gather_seconds=60.0)
    bench.emit(START, *(failed(str(number)) for number in range(5)), DONE)
    notifier.finish(30.0)
    assert [(each["reason"], each["count"]) for each in bench.told()] == [("failed", 5), ("done", 1)]


def test_a_run_with_nothing_to_tell_starts_nothing(bench: Bench) -> None:
    notifier = bench.keeping()
    bench.emit(START)
    notifier.close()
    notifier.finish()
    assert bench.told() == []


def test_a_failure_is_told_once_and_without_secrets(bench: Bench) -> None:
    notifier = bench.make(sys.executable, "-c", "import sys; sys.exit('my secret')")
    bench.emit(START, failed("1"))
    eventually(lambda: bench.failures, "a failure")
    bench.emit(failed("2"), DONE)
    notifier.finish()
    [words] = bench.failures
    assert words == f"nobody was notified: {Path(sys.executable).name} exited with 1: my ******"
    assert notifier.untold_failure == words
    bench.emit(Warned(text=words))
    assert notifier.untold_failure == ""


def test_a_command_that_is_not_there_is_a_failure(bench: Bench) -> None:
    notifier = bench.make("/no/such/program")
    bench.emit(START, failed("1"))
    notifier.finish()
    assert "nobody was notified: " in bench.failures[0]
    assert "/no/such/program" in bench.failures[0]


def test_a_command_that_hangs_is_ended_with_all_it_started(bench: Bench) -> None:
    script = "trap '' TERM; sleep 600 & touch started; wait; sleep 600"
    notifier = bench.make("sh", "-c", script)
    bench.emit(START, failed("1"), failed("2"))
    eventually(lambda: (bench.tmp_path / "started").exists(), "the command is under way")
    notifier.finish(0.0)
    assert bench.failures == ["nobody was notified: sh did not end in time and was ended"]


def test_a_desktop_is_asked_by_its_own_command_with_text_that_is_no_markup(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = bench.tmp_path / "notify-send"
    program.write_text('#!/bin/sh\nfor word; do echo "$word"; done > shown\n')
    program.chmod(0o755)
    path = f"{bench.tmp_path}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    notifier = bench.make(desktop=True, PATH=path)
    bench.emit(START, ItemEnded(item_id="1", outcome=FAILED, seconds=1, reason="<b>-x"))
    notifier.finish(30.0)
    assert bench.failures == []
    assert (bench.tmp_path / "shown").read_text().splitlines() == [
        *("--app-name=agentos", "--", "agentos: LLD-1 failed", "LLD-1: failed: &lt;b&gt;-x"),
    ]
