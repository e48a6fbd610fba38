"""The command's own standard streams may be closed, or lead to a full disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness import AGENTOS, DEADLINE_SECONDS, Sandbox

FULL = Path("/dev/full")


def shell(sandbox: Sandbox, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", str(AGENTOS), *arguments],
        cwd=sandbox.project,
        env=sandbox.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("redirection", [">&-", "<&- >&- 2>&-"])
def test_a_run_without_standard_streams_runs_and_keeps_its_records(sandbox: Sandbox, redirection: str) -> None:
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "print heard"}}})

    done = shell(sandbox, redirection, *sandbox.arguments())

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sandbox.outcomes() == {"a": "completed"}
    [run_dir] = sandbox.run_dirs()
    assert "heard" in (run_dir / "a.log").read_text()


def test_an_error_without_stderr_is_still_told_by_the_exit_code(sandbox: Sandbox) -> None:
    assert shell(sandbox, "2>&-", *sandbox.arguments(items="missing.jsonl")).returncode == 2


def test_items_from_a_closed_stdin_are_no_items(sandbox: Sandbox) -> None:
    done = shell(sandbox, "<&-", "run", "--graph", "graphs/steps.py:graph", "--items", "-")

    assert done.returncode == 2
    assert "no items in it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_said_in_one_line_on_stderr(sandbox: Sandbox, unbuffered: str) -> None:
    sandbox.environment["PYTHONUNBUFFERED"] = unbuffered
    sandbox.write_items({"id": "a"})

    for code, arguments in (
        (130, sandbox.arguments()),  # The run was stopped.
        (1, sandbox.arguments("--dry-run")),
        (1, ["runs"]),
        (1, ["--version"]),
        (1, ["--help"]),
    ):
        done = shell(sandbox, f">{FULL}", *arguments)

        assert done.returncode == code
        [line] = done.stderr.splitlines()
        assert line.startswith("agentos: error: cannot write")
        assert "No space left on device" in line


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_an_error_that_cannot_be_written_is_still_told_by_the_exit_code(sandbox: Sandbox) -> None:
    done = shell(sandbox, f">{FULL} 2>{FULL}", *sandbox.arguments(items="missing.jsonl"))

    assert done.returncode == 2


def test_a_reader_that_leaves_early_hears_no_complaint(sandbox: Sandbox) -> None:
    done = shell(sandbox, "| true", "--help")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("encoding", "said"), [("latin-1", "gr\xfcn \\u0141 ..."), ("ascii", "gr\\xfcn \\u0141 ...")]
)
def test_what_an_encoding_has_not_is_shown_as_well_as_it_can_be(sandbox: Sandbox, encoding: str, said: str) -> None:
    environment = {**sandbox.environment, "PYTHONIOENCODING": encoding, "COLUMNS": "40"}
    sandbox.write_items({"id": "a", "input": {"tasks": {"n1": "print gr\xfcn \u0141 \u2026"}}})

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [str(AGENTOS), *arguments],
            cwd=sandbox.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode(encoding).splitlines()

    assert f"[a] {said}" in run(*sandbox.arguments())
    headings, row = run("runs")
    [run_dir] = sandbox.run_dirs()
    assert headings.split() == ["RUN", "STATE", "ENDED"]
    assert row.split() == [run_dir.name, "finished", "1/1"]
    assert f"[COORDINATOR] Logs: {run_dir}" in run("runs", "show")
