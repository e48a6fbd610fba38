"""What the operating system gives for a clean end. Linux has all of it; elsewhere each function does what it can."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
# Among the fields of /proc/PID/stat after the command's name.
_VSIZE = 20
_ENV_END = 48
_STARTING_SECONDS = 1.0

IS_LINUX = sys.platform == "linux"
CAN_FORK_SAFELY = IS_LINUX
"""Fork servers are for Linux: elsewhere system libraries do not survive a fork."""


@cache
def _libc() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415  A dry run asks nothing of the kernel.

    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """The kernel kills this process when the thread that made it ends. 0 takes it back."""
    if IS_LINUX:
        _libc().prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)


def flush_output() -> None:
    """Everything this process has said so far is on its way, by Python and by native code."""
    for stream in (sys.stdout, sys.stderr):
        # A graph may have closed it, or put anything in its place: None, its own object.
        with suppress(Exception):
            stream.flush()
    # What the C library still keeps. Standard output only: other files may be locked.
    if IS_LINUX:
        import ctypes  # noqa: PLC0415  As above.

        _libc().fflush(ctypes.c_void_p.in_dll(_libc(), "stdout"))


TERMINAL_GROUP_VARIABLE = "AGENTOS_TERMINAL_GROUP"
"""The process group of the command that somebody typed, when it runs another in a group of its own."""


def is_in_foreground(terminal: int, typed_group: str = "") -> bool:
    """Whether what we write to this terminal is in nobody's way: no shell has put us into the background."""
    try:
        return str(os.tcgetpgrp(terminal)) in (str(os.getpgrp()), typed_group)
    except (OSError, AttributeError):
        return True


def adopt_orphans(enabled: bool = True) -> bool:
    """Orphans among our descendants become our children. Says what it was before."""
    if not IS_LINUX:
        return False
    import ctypes  # noqa: PLC0415  As above.

    before = ctypes.c_int(0)
    _libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    _libc().prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)
    return bool(before.value)


def volunteer_for_oom_killer() -> None:
    """When memory runs out the kernel should take a worker, not the coordinator."""
    if IS_LINUX:
        # A hardened system may forbid it; it is only a preference.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def open_files_limit() -> int:
    """How many files this process may have open."""
    try:
        import resource  # noqa: PLC0415  Unix only.
    except ImportError:
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def limit_memory(megabytes: int) -> None:
    """Allocations beyond this fail with MemoryError in this process and its children."""
    import resource  # noqa: PLC0415  Unix only.

    size = megabytes * 1024 * 1024
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        size = min(size, most)  # Whoever started us allows no more.
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def memory_megabytes() -> int:
    """The address space that this process has, which is what `limit_memory` limits; 0 where nobody says."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)


def children_of(parent: int) -> list[int]:
    """Live and zombie children."""
    if not IS_LINUX:
        return []
    lists = _children_lists(parent)
    if not lists:
        # A kernel that keeps no such lists.
        return [pid for pid in _pids() if parent_of(pid) == parent]
    return [int(pid) for children in lists for pid in children.split()]


def _children_lists(pid: int) -> list[bytes]:
    """The kernel's own lists, one per thread."""
    lists = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  Hot path.
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                lists.append(file.read())
    return lists


def parent_of(pid: int) -> int | None:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else None


def session_of(pid: int) -> int | None:
    fields = stat_fields(pid)
    return int(fields[3]) if fields else None


def start_time(pid: int) -> str | None:
    """When a process started, in the kernel's own count; None when there is none, or where there is no /proc."""
    fields = stat_fields(pid)
    return fields[19] if len(fields) > 19 else None


def is_suspended(pid: int) -> bool:
    """Stopped by a signal (SIGSTOP, Ctrl+Z, a debugger): silent, but not wedged."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] in ("T", "t")


def has_ended(pid: int) -> bool:
    """Ended, and its parent has not asked yet how."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] == "Z"


def is_runnable(pid: int) -> bool:
    """On a processor or waiting for one, rather than for something to happen."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] == "R"


def processes_with(variable: str, value: str) -> list[int]:
    """Other processes that were started with this environment variable; none where there is no /proc."""
    wanted = f"{variable}={value}".encode()
    found = []
    for pid in _pids():
        if pid == os.getpid():
            continue
        if wanted in _environment_of(pid).split(b"\0"):
            found.append(pid)
    return found


def _environment_of(pid: int) -> bytes:
    """As it was started with; empty when it is gone or not ours.

    For a moment of its start a program has no environment yet: who looked away then would miss it for good.
    """
    path = Path(f"/proc/{pid}/environ")
    with suppress(OSError):
        if found := path.read_bytes():
            return found
        deadline = time.monotonic() + _STARTING_SECONDS
        while _is_starting(pid) and time.monotonic() < deadline:
            time.sleep(0.001)
        return path.read_bytes()
    return b""


def _is_starting(pid: int) -> bool:
    """Whether it has memory, as kernel threads and zombies have not, but no place for an environment in it yet."""
    fields = stat_fields(pid)
    return len(fields) > _ENV_END and fields[_VSIZE] != "0" and fields[_ENV_END] == "0"


def kill_quietly(pid: int) -> None:
    # Gone already, or a setuid program that is not ours to end.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _pids() -> Iterator[int]:
    if IS_LINUX:
        for name in os.listdir("/proc"):  # noqa: PTH208  Names only: three times as fast.
            if name.isdigit():
                yield int(name)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, which may itself contain anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  Hot path.
            return file.read().rpartition(b") ")[2].decode("ascii", "replace").split()
    except OSError:
        return []
