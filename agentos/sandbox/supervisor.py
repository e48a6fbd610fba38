"""The process beside a sandboxed command: puts it into its sandbox, watches its limits, ends it, says how it ended.

A program of its own, since only a process with one thread can enter namespaces and fork safely. It imports nothing
but the standard library and its neighbours, and has the command's environment: there is no secret in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from agentos.sandbox import cgroup, kernel, landlock, namespaces, system_calls, usage
from agentos.sandbox.bubblewrap import bubblewrap_arguments
from agentos.sandbox.limits import EndedBy, Limits
from agentos.sandbox.view import View

_LOOK_SECONDS: Final = 0.2
_DISK_LOOK_SECONDS: Final = 1.0
_DISK_LOOK_SHARE: Final = 20
"""Looking at files takes at most one part in so many of the time."""
_KILL_SECONDS: Final = 10.0
_SHELLS_SIGNAL_BASE: Final = 128
# What Landlock shows of the kernel's files; a process sees its own in /proc/self, opened before it is confined.
_LANDLOCK_READABLE: Final = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/proc/self", "/proc/stat", "/proc/meminfo", "/proc/cpuinfo", "/proc/loadavg", "/proc/uptime", "/proc/version"),
    *("/proc/filesystems", "/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/random"),
)
_LANDLOCK_WRITABLE: Final = ("/dev/null", "/dev/zero", "/dev/full")
_MB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Spec:
    """One command and its sandbox, as the supervisor is told."""

    isolation: str
    """As `Isolation` names it."""
    argv: tuple[str, ...]
    cwd: str
    view: View
    limits: Limits
    allow_network: bool
    verdict_path: str
    """Where the supervisor writes how it ended: a place that the command cannot reach."""
    starter_pid: int
    bubblewrap: str = ""
    """The program."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        document = json.loads(text)
        view = {name: _as_tuple(value) for name, value in document.pop("view").items()}
        limits = Limits(**document.pop("limits"))
        return cls(view=View(**view), limits=limits, **{name: _as_tuple(value) for name, value in document.items()})


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a command ended, as far as that is the command's or the sandbox's doing."""

    exit_code: int | None = None
    signal_number: int | None = None
    ended_by: str | None = None
    problem: str | None = None
    """Why there could be no sandbox; the command was not run."""


def read_verdict(text: str) -> Verdict | None:
    """None when the supervisor did not get to say it."""
    try:
        return Verdict(**json.loads(text))
    except (ValueError, TypeError):
        return None


def main() -> NoReturn:
    spec = Spec.from_json(sys.argv[1])
    verdict_file = os.open(spec.verdict_path, os.O_WRONLY | os.O_CLOEXEC)
    # Whoever reads it has it open: nothing is left behind, whoever is killed when.
    os.unlink(spec.verdict_path)  # noqa: PTH108 - a text all the way
    kernel.die_with_parent(signal.SIGTERM)
    if os.getppid() != spec.starter_pid:
        os._exit(1)
    kernel.adopt_orphans()
    # Waited for, not handled: nothing interrupts what is done here.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM))
    verdict = _Supervisor(spec).run()
    os.write(verdict_file, json.dumps(asdict(verdict)).encode())
    os._exit(0)


class _Supervisor:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._limits = spec.limits
        self._started = time.time()
        self._group = cgroup.make(spec.limits)
        self._next_disk_look = time.monotonic() + _DISK_LOOK_SECONDS

    def run(self) -> Verdict:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _be_the_command(self._spec, writing, self._group)
        os.close(writing)
        status, ended_by = self._watch(child)
        _kill_all()
        said = os.read(reading, 4096).decode(errors="replace")
        if self._group:
            ended_by = ended_by or self._group.ended_by()
            self._group.remove()
        return _verdict(self._spec, status, said, ended_by)

    def _watch(self, child: int) -> tuple[int, EndedBy | None]:
        """Wait for the end of a child, ending it when it must."""
        ended_by: EndedBy | None = None
        while True:
            arrived = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), _LOOK_SECONDS)
            if arrived is not None and arrived.si_signo == signal.SIGTERM:
                _end(child)
            status = _reap(child)
            if status is not None:
                return status, ended_by
            if ended_by is None and (ended_by := self._exceeded()):
                _end(child)

    def _exceeded(self) -> EndedBy | None:
        pids = usage.descendants(os.getpid())
        if usage.task_count(pids) > self._limits.processes:
            return EndedBy.PROCESSES
        most_memory = self._limits.memory_mb * _MB
        memory = usage.memory_bytes(pids, enough=most_memory)
        if memory > most_memory:
            return EndedBy.MEMORY
        start = time.monotonic()
        if start < self._next_disk_look:
            return None
        in_memory, on_disk = usage.nameless_bytes(pids)
        most_disk = self._limits.disk_mb * _MB
        try:
            written = on_disk + usage.bytes_written(self._spec.view.writable, self._started, enough=most_disk)
        except usage.TooDeep:
            return EndedBy.DEPTH
        now = time.monotonic()
        self._next_disk_look = now + max(_DISK_LOOK_SECONDS, _DISK_LOOK_SHARE * (now - start))
        if memory + in_memory > most_memory:
            return EndedBy.MEMORY
        return EndedBy.DISK if written > most_disk else None


def _verdict(spec: Spec, status: int, said: str, ended_by: EndedBy | None) -> Verdict:
    kind, _, rest = said.partition(" ")
    if kind == "problem":
        return Verdict(problem=rest)
    code, left = (int(word) for word in rest.split()) if kind == "ended" else (os.waitstatus_to_exitcode(status), 0)
    if spec.isolation == "bwrap" and _SHELLS_SIGNAL_BASE < code <= _SHELLS_SIGNAL_BASE + 64:
        code = _SHELLS_SIGNAL_BASE - code
    if ended_by is None and code == -signal.SIGXFSZ:
        ended_by = EndedBy.FILE_SIZE
    # The kernel's own limits may be faster than the next look.
    if ended_by is None and left > spec.limits.processes:
        ended_by = EndedBy.PROCESSES
    if ended_by is None and code != 0 and _largest_process_bytes() > spec.limits.memory_mb * _MB:
        ended_by = EndedBy.MEMORY
    return Verdict(
        exit_code=code if code >= 0 and ended_by is None else None,
        signal_number=-code if code < 0 else None,
        ended_by=ended_by.value if ended_by else None,
    )


def _largest_process_bytes() -> int:
    """The most memory that one of those that have ended ever had."""
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _reap(child: int) -> int | None:
    """Bury whoever has ended; the child's status when it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = ended[1]
    return found


def _end(child: int) -> None:
    """The first goes first: a shell has something to say about the end of its children."""
    os.kill(child, signal.SIGKILL)
    for pid in usage.descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _kill_all() -> None:
    """End every descendant that is left, also those that left their group or session."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        pids = usage.descendants(os.getpid())
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap(0)
        time.sleep(0.002)


def _be_the_command(spec: Spec, telling: int, group: cgroup.Cgroup | None) -> NoReturn:
    """Enter the sandbox and become the command."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        if group:
            group.enter()
        os.umask(0o022)
        match spec.isolation:
            case "bwrap":
                _become_bubblewrap(spec)
            case "namespaces":
                _enter_namespaces(spec, telling)
            case "landlock":
                os.setsid()
                _limit(spec.limits, counts_all_of_the_users=True)
                _confine_without_namespaces(spec)
                _execute(spec)
            case _:
                os.setsid()
                _limit(spec.limits, counts_all_of_the_users=True)
                _execute(spec)
    except BaseException as error:
        os.write(telling, f"problem {error}"[:4000].encode(errors="replace"))
    os._exit(127)


def _become_bubblewrap(spec: Spec) -> NoReturn:
    _limit(spec.limits, counts_all_of_the_users=True)
    program = os.memfd_create("filter", 0)
    os.write(program, _filter(spec, has_namespaces=True))
    os.lseek(program, 0, os.SEEK_SET)
    argv = [
        spec.bubblewrap,
        *bubblewrap_arguments(
            spec.view, allow_network=spec.allow_network, temporary_bytes=_temporary_bytes(spec.limits)
        ),
        *(("--seccomp", str(program)) if kernel.MACHINE else ()),
        *("--chdir", spec.cwd, "--", *spec.argv),
    ]
    _restore_signals()
    os.execv(argv[0], argv)


def _enter_namespaces(spec: Spec, telling: int) -> None:
    namespaces.enter(allow_network=spec.allow_network)
    first = os.fork()
    if first:
        os.close(telling)
        os.waitpid(first, 0)
        os._exit(0)
    kernel.die_with_parent(signal.SIGKILL)
    kernel.hide_from_others()
    os.setsid()
    namespaces.build_root(
        spec.view, temporary_bytes=_temporary_bytes(spec.limits), most_processes=2 * spec.limits.processes
    )
    _limit(spec.limits, counts_all_of_the_users=False)
    kernel.drop_capabilities()
    kernel.forbid_new_privileges()
    keeps_names = spec.allow_network and landlock.confine_sockets()
    if kernel.MACHINE:
        kernel.filter_system_calls(_filter(spec, has_namespaces=True, keeps_names=keeps_names))
    command = os.fork()
    if command == 0:
        _execute(spec)
    _be_first_process(command, telling)


def _be_first_process(command: int, telling: int) -> NoReturn:
    """Bury orphans until the command has ended; then all that it left ends with this process."""
    ended, status = 0, 0
    while ended != command:
        ended, status = os.wait()
    left = sum(name.isdigit() for name in os.listdir("/proc"))  # noqa: PTH208 - names
    os.write(telling, f"ended {os.waitstatus_to_exitcode(status)} {left}".encode())
    os._exit(0)


def _confine_without_namespaces(spec: Spec) -> None:
    os.chdir(spec.cwd)
    try:
        kernel.drop_capabilities()
    except PermissionError:
        # Only who has capabilities may give up getting them; the others have none, and get none below.
        kernel.give_up_capabilities()
    kernel.forbid_new_privileges()
    readable = (*spec.view.read_only, *_LANDLOCK_READABLE)
    landlock.confine(readable, (*spec.view.writable, *_LANDLOCK_WRITABLE))
    kernel.filter_system_calls(_filter(spec, has_namespaces=False))


def _filter(spec: Spec, *, has_namespaces: bool, keeps_names: bool = False) -> bytes:
    if not kernel.MACHINE:
        return b""
    return system_calls.filter_program(
        kernel.MACHINE,
        has_namespaces=has_namespaces,
        allow_network=spec.allow_network,
        keeps_names=keeps_names,
        refuse_truncate=not has_namespaces and landlock.version() < landlock.TRUNCATE_VERSION,
    )


def _temporary_bytes(limits: Limits) -> int:
    """Of one folder in memory. What is in them counts as nobody's memory and as no file of the worktree."""
    return limits.disk_mb * _MB // 8


def _limit(limits: Limits, *, counts_all_of_the_users: bool) -> None:
    """What the kernel itself holds to. It counts by process; the supervisor counts all of them together."""
    # With 0 a program that collects crashes would run, outside and as root; 1 is the one value that forbids it.
    _set_limit(resource.RLIMIT_CORE, 1)
    _set_limit(resource.RLIMIT_FSIZE, limits.file_mb * _MB)
    _set_limit(resource.RLIMIT_NOFILE, limits.open_files)
    # Twice of what all may have together: no single process outruns the supervisor, which says why it ends them.
    _set_limit(resource.RLIMIT_DATA, 2 * limits.memory_mb * _MB)
    if not counts_all_of_the_users:
        _set_limit(resource.RLIMIT_NPROC, 2 * limits.processes)


def _set_limit(what: int, wanted: int) -> None:
    _, most = resource.getrlimit(what)
    value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(what, (value, value))


def _execute(spec: Spec) -> NoReturn:
    os.chdir(spec.cwd)
    _restore_signals()
    os.execv(spec.argv[0], spec.argv)


def _restore_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
