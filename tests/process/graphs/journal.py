"""What sample nodes do: note when they start and end, and carry out what their item's input asks for."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def note(text: str) -> None:
    """One line, in one write: whole even when many processes append at once."""
    descriptor = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def sandbox_file(name: str) -> Path:
    return Path(os.environ["JOURNAL"]).parent / name


def step(node: str, tasks: dict[str, str]) -> None:
    """A node's life: `ITEM NODE start`, the item's task for NODE, `ITEM NODE end`, its task for `NODE end`."""
    item = os.environ["AGENTOS_ITEM_ID"]
    note(f"{item} {node} start")
    _carry_out(tasks.get(node))
    note(f"{item} {node} end")
    _carry_out(tasks.get(f"{node} end"))


def _carry_out(task: str | None) -> None:
    if task is not None:
        name, _, argument = task.partition(" ")
        TASKS[name](argument)


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("cannot travel")
        self.held = lambda: None


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class TextExits(Exception):
    def __str__(self) -> str:
        sys.exit(3)


class Incomparable(Exception):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


class OwnBaseException(BaseException):
    pass


def _recurse(argument: str) -> None:
    _recurse(argument)


def _wait_for(name: str) -> None:
    while not sandbox_file(name).exists():
        time.sleep(0.01)


def _raise(error: BaseException) -> None:
    raise error


def _raise_incomparable() -> None:
    try:
        raise Incomparable("inner")
    except Incomparable as error:
        raise Incomparable("outer") from error


def _fork_and_exit(name: str) -> None:
    """The child leaves as programs do. Its parent goes on for longer than a worker that is done may live."""
    child = os.fork()
    if child == 0:
        sys.exit(7)
    note(f"child exited with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    _wait_for(name)


def _lose_stdout(how: str) -> None:
    if how == "closed":
        sys.stdout.close()
        sys.stderr.close()
    else:
        sys.stdout = sys.stderr = None if how == "none" else 5  # type: ignore[assignment]


def _limit_files(size: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))


def _leave_nameless_child(seconds: str) -> None:
    """A child that nothing but its descent ties to the run: no environment, a session of its own."""
    child = subprocess.Popen(["/bin/sleep", seconds], env={}, start_new_session=True, stdout=subprocess.DEVNULL)
    note(f"nameless {child.pid}")


def _use_processes(_: str) -> None:
    """As many libraries do: fresh processes, and what `multiprocessing` keeps beside them."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        note(f"processes say {pool.map(abs, [-7])}")


def _first_time(name: str) -> bool:
    try:
        sandbox_file(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _crash_once(name: str) -> None:
    if _first_time(name):
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_once(victim_and_name: str) -> None:
    """Kill the worker, the fork server or the coordinator from within a node, and wait for what comes of it."""
    victim, _, name = victim_and_name.partition(" ")
    if not _first_time(name):
        return
    worker, server = os.getpid(), os.getppid()
    coordinator = int(Path(f"/proc/{server}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill({"worker": worker, "server": server, "coordinator": coordinator}[victim], signal.SIGKILL)
    time.sleep(600)


def _die_before_record(name: str) -> None:
    """The next write in place is the record of this node, after its commit: die instead of it."""
    if _first_time(name):
        os.pwrite = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]


def _fail_once(name: str) -> None:
    if _first_time(name):
        raise RuntimeError("failed the first time")


def _print_kilobytes(number: str) -> None:
    for _ in range(int(number)):
        print("x" * 1023)


TASKS: dict[str, Any] = {
    "wait": _wait_for,
    "print": print,
    "here": lambda _: note(f"{os.environ['AGENTOS_ITEM_ID']} works in {Path.cwd()}"),
    "environment": lambda name: note(f"{name}={os.environ.get(name)}"),
    "print_kilobytes": _print_kilobytes,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "raise": lambda text: _raise(ValueError(text)),
    "own_disk_full": lambda _: _raise(OSError(errno.ENOSPC, "No space left on device")),
    "own_database_full": lambda _: _raise(sqlite3.OperationalError("database or disk is full")),
    "unpicklable": lambda _: _raise(Unpicklable()),
    "unprintable": lambda _: _raise(Unprintable()),
    "text_exits": lambda _: _raise(TextExits()),
    "incomparable": lambda _: _raise_incomparable(),
    "raise_huge": lambda megabytes: _raise(ValueError("huge " + "x" * (int(megabytes) << 20))),
    "stop_iteration": lambda _: _raise(StopIteration("nothing left")),
    "recurse": _recurse,
    "base_exception": lambda text: _raise(OwnBaseException(text)),
    "keyboard_interrupt": lambda _: _raise(KeyboardInterrupt()),
    "system_exit": lambda text: sys.exit(text),
    "os_exit": lambda status: os._exit(int(status)),
    "kill": lambda number: os.kill(os.getpid(), int(number)),
    "segfault": lambda _: ctypes.string_at(0),
    "eat_memory": lambda megabytes: bytearray(int(megabytes) << 20),
    "leave_child": lambda seconds: subprocess.Popen(["sleep", seconds], start_new_session=True),
    "remove_project": lambda _: Path(os.environ["PLACE"]).rmdir(),
    "use_processes": _use_processes,
    "leave_nameless_child": _leave_nameless_child,
    "fork_and_exit": _fork_and_exit,
    "lose_stdout": _lose_stdout,
    "limit_files": _limit_files,
    "crash_once": _crash_once,
    "kill_once": _kill_once,
    "die_before_record": _die_before_record,
    "fail_once": _fail_once,
}
