"""What the operating system gives for a clean end. Run in child processes: most of it cannot be taken back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agentos.processes import host

pytestmark = pytest.mark.skipif(not host.IS_LINUX, reason="Linux has these; elsewhere they do nothing")


def python(code: str, **kwargs: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **kwargs)  # type: ignore[call-overload, no-any-return]


def output_of(code: str) -> str:
    with python(code) as process:
        assert process.stdout is not None
        return process.stdout.read().strip()


@contextmanager
def sleeper(**kwargs: object) -> Iterator[subprocess.Popen[str]]:
    with python("import time; print('up', flush=True); time.sleep(600)", **kwargs) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    fields = host.stat_fields(pid)
    return bool(fields) and fields[0] not in ("Z", "X")


def test_a_process_dies_with_its_parent() -> None:
    code = """
import os, time
from agentos.processes import host
read, write = os.pipe()
child = os.fork()
if child == 0:
    host.die_with_parent()
    os.close(1)
    os.write(write, b"asked")
    time.sleep(600)
os.read(read, 5)
print(child, flush=True)
time.sleep(600)
"""
    with python(code) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    wait_until(lambda: not is_alive(child))


def test_dying_with_the_parent_can_be_taken_back() -> None:
    code = """
import ctypes
from agentos.processes import host
def asked():
    wanted = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(2, ctypes.byref(wanted), 0, 0, 0)
    return wanted.value
host.die_with_parent(); before = asked()
host.die_with_parent(0); print(before, asked())
"""
    assert output_of(code) == f"{int(signal.SIGKILL)} 0"


def test_orphans_among_descendants_become_children() -> None:
    code = """
import os, time
from agentos.processes import host
assert host.adopt_orphans() is False
assert host.adopt_orphans() is True
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.close(1)
        time.sleep(600)
    os._exit(0)
os.wait()
[orphan] = host.children_of(os.getpid())
assert host.parent_of(orphan) == os.getpid()
host.kill_quietly(orphan)
assert os.wait()[0] == orphan
assert host.adopt_orphans(False) is True
assert host.adopt_orphans(False) is False
print("adopted")
"""
    assert output_of(code) == "adopted"


def test_a_worker_is_taken_before_the_coordinator_when_memory_runs_out() -> None:
    code = """
from pathlib import Path
from agentos.processes import host
host.volunteer_for_oom_killer()
print(Path("/proc/self/oom_score_adj").read_text())
"""
    assert output_of(code) == "1000"


def test_memory_beyond_the_limit_is_a_memory_error() -> None:
    code = """
from agentos.processes import host
host.limit_memory(300)
small = bytearray(10_000_000)
try:
    bytearray(1_000_000_000)
except MemoryError:
    print("refused")
"""
    assert output_of(code) == "refused"


def test_children_are_found_alive_or_dead() -> None:
    with sleeper() as one, sleeper() as other:
        assert {one.pid, other.pid} <= set(host.children_of(os.getpid()))
        one.kill()
        wait_until(lambda: not is_alive(one.pid))
        assert one.pid in host.children_of(os.getpid())  # Nobody has waited for it yet.


def test_a_parent_is_known_whatever_its_child_is_called() -> None:
    code = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"a) R 1 (b", 0, 0, 0)
print('named', flush=True); time.sleep(600)
"""
    with python(code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "named\n"
        assert host.parent_of(process.pid) == os.getpid()
        process.kill()


def test_a_process_that_is_gone_has_no_parent_and_is_not_suspended() -> None:
    with sleeper() as process:
        process.kill()
        process.wait()
        assert host.parent_of(process.pid) is None
        assert not host.is_suspended(process.pid)


def test_a_suspended_process_is_told_from_a_silent_one() -> None:
    with sleeper() as process:
        assert not host.is_suspended(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: host.is_suspended(process.pid))
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not host.is_suspended(process.pid))


def test_a_busy_process_is_told_from_one_that_waits() -> None:
    with sleeper() as waiting:
        wait_until(lambda: not host.is_runnable(waiting.pid))
    with python("while True: pass") as busy:
        wait_until(lambda: host.is_runnable(busy.pid))
        busy.kill()
    assert not host.is_runnable(busy.pid)


def test_what_c_code_printed_goes_out_before_a_hard_exit() -> None:
    code = """
import ctypes, os
from agentos.processes import host
ctypes.CDLL(None).printf(b"from C")
host.flush_output()
os._exit(0)
"""
    assert output_of(code) == "from C"


def test_processes_are_found_by_a_variable_they_were_started_with() -> None:
    mark = f"test-{os.getpid()}-{time.monotonic_ns()}"
    with sleeper(env=os.environ | {"AGENTOS_TEST_MARK": mark}) as process:
        assert host.processes_with("AGENTOS_TEST_MARK", mark) == [process.pid]
        assert host.processes_with("AGENTOS_TEST_MARK", mark[:-1]) == []
        assert host.processes_with("TEST_MARK", mark) == []


def test_a_process_is_found_from_the_first_moment_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Popen` returns while the kernel still sets the program up; before, about one look in sixty came too early."""
    for _ in range(200):
        with subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], "HOST_MARK": "1"}) as process:
            monkeypatch.setattr(os, "listdir", lambda path, pid=process.pid: [str(pid)])
            found = host.processes_with("HOST_MARK", "1")
            process.kill()
        assert found == [process.pid]


def test_children_are_found_where_the_kernel_keeps_no_list_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def without_threads(path: str) -> list[str]:
        if path.endswith("/task"):
            raise FileNotFoundError
        return listed(path)

    with sleeper() as one:
        monkeypatch.setattr(os, "listdir", without_threads)
        assert one.pid in host.children_of(os.getpid())


def test_a_process_that_ends_while_we_look_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with sleeper() as process:
        process.kill()
        process.wait()
        assert process.pid not in host.children_of(os.getpid())
        monkeypatch.setattr(os, "listdir", lambda path: [str(process.pid)])
        assert host.processes_with("PATH", os.environ["PATH"]) == []


def test_killing_somebody_who_is_gone_is_no_error() -> None:
    with sleeper() as process:
        host.kill_quietly(process.pid)
        assert process.wait() == -signal.SIGKILL
        host.kill_quietly(process.pid)


def test_what_can_be_taken_back_is_as_it_was_afterwards() -> None:
    before = host.adopt_orphans()
    assert host.adopt_orphans(before) is True
    assert host.adopt_orphans(before) is before
    host.flush_output()
    host.die_with_parent(0)  # What it was: nobody asked for it here.


def test_elsewhere_every_function_is_a_plain_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "IS_LINUX", False)
    host.die_with_parent()
    host.volunteer_for_oom_killer()
    host.flush_output()
    assert host.adopt_orphans() is False
    assert host.children_of(os.getpid()) == []
    assert host.processes_with("PATH", os.environ.get("PATH", "")) == []
