"""Children end in time, say no more than is kept, and leave nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.processes import children
from agentos.processes.children import ChildResult, HeadTail, kill_with_variable, run_child
from agentos.processes.host import processes_with

ENV = {"PATH": os.environ["PATH"]}


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.01)


def run_python(code: str, tmp_path: Path, *args: str, **options: object) -> ChildResult:
    defaults: dict[str, object] = {"cwd": tmp_path, "env": ENV, "timeout_seconds": 30.0}
    argv = [sys.executable, "-c", textwrap.dedent(code), *args]
    return run_child(argv, **{**defaults, **options})  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_result_has_exit_code_and_both_streams(tmp_path: Path) -> None:
    result = run_python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (result.exit_code, result.signal_number, result.timed_out) == (3, None, False)
    assert (result.stdout.text(), result.stderr.text()) == ("out\n", "err\n")


def test_input_larger_than_a_pipe_arrives_whole(tmp_path: Path) -> None:
    result = run_python("import sys; print(len(sys.stdin.buffer.read()))", tmp_path, stdin=b"x" * 3_000_000)
    assert result.stdout.text() == "3000000\n"


def test_child_that_reads_no_input_is_not_waited_for(tmp_path: Path) -> None:
    result = run_python("pass", tmp_path, stdin=b"x" * 3_000_000)
    assert result.exit_code == 0


def test_no_input_is_end_of_file_at_once(tmp_path: Path) -> None:
    assert run_python("import sys; print(repr(sys.stdin.read()))", tmp_path).stdout.text() == "''\n"


def test_time_limit_ends_the_child_and_its_children(tmp_path: Path) -> None:
    argv = ["sh", "-c", "sleep 600 & echo $!; sleep 600"]
    result = run_child(argv, cwd=tmp_path, env=ENV, timeout_seconds=1.0)
    assert result.timed_out
    assert result.signal_number is not None
    wait_until(lambda: not is_alive(int(result.stdout.text())))


def test_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "TERMINATE_GRACE_SECONDS", 0.2)
    argv = ["sh", "-c", "trap '' TERM; sleep 600"]
    result = run_child(argv, cwd=tmp_path, env=ENV, timeout_seconds=1.0)
    assert (result.timed_out, result.signal_number) == (True, 9)


def test_background_child_left_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    code = """
        import subprocess, sys
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    """
    result = run_python(code, tmp_path)
    assert result.exit_code == 0
    assert not result.timed_out
    wait_until(lambda: not is_alive(int(result.stdout.text())))


def test_without_pidfds_the_end_is_noticed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    result = run_python("print('done')", tmp_path)
    assert (result.exit_code, result.stdout.text()) == (0, "done\n")


def test_merged_output_keeps_head_and_tail_and_says_what_is_missing(tmp_path: Path) -> None:
    result = run_python("print('a' * 50_000); print('z' * 50_000)", tmp_path, limit_bytes=1_000, merge_stderr=True)
    text = result.stdout.text()
    assert text.startswith("a" * 500 + "\n... [")
    assert text.endswith("z" * 499 + "\n")
    assert result.stdout.dropped_bytes == 100_002 - 1_000


def test_missing_program_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "setpriv_path", lambda: None)
    with pytest.raises(FileNotFoundError):
        run_child(["no-such-program-here"], cwd=tmp_path, env=ENV, timeout_seconds=5)


@pytest.mark.skipif(children.setpriv_path() is None, reason="needs setpriv")
def test_child_dies_when_its_starter_is_killed(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    code = f"""
        from pathlib import Path
        from agentos.processes.children import run_child
        inner = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
        run_child([{sys.executable!r}, "-c", inner], cwd=Path({str(tmp_path)!r}), env={{}}, timeout_seconds=600)
    """
    starter = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_until(lambda: pid_path.exists() and pid_path.read_text() != "")
    child = int(pid_path.read_text())
    assert is_alive(child)
    starter.kill()
    starter.wait()
    wait_until(lambda: not is_alive(child))


def test_marked_process_that_left_its_session_is_found_and_killed(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path}"
    process = subprocess.Popen(["sleep", "600"], env={**ENV, "SOME_MARK": mark}, start_new_session=True)
    wait_until(lambda: process.pid in processes_with("SOME_MARK", mark))
    kill_with_variable("SOME_MARK", mark)
    assert process.wait(120) == -9


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(2, 60))
def test_head_and_tail_are_the_streams_own_and_nothing_is_lost_uncounted(chunks: list[bytes], limit: int) -> None:
    keeper, whole = HeadTail(limit), b"".join(chunks)
    for chunk in chunks:
        keeper.feed(chunk)
    captured = keeper.captured()
    assert whole.startswith(captured.head)
    assert whole.endswith(captured.tail)
    assert len(captured.head) + len(captured.tail) + captured.dropped_bytes == len(whole)
    assert len(captured.head) + len(captured.tail) <= limit
    assert captured.dropped_bytes == max(0, len(whole) - limit)
