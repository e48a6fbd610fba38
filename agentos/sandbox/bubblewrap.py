"""Runs model-written code: without secrets, and without network and write access where the machine allows it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from agentos.environment import environment
from agentos.errors import AgentosError, UsageError
from agentos.paths import home_dir
from agentos.processes.children import ChildResult, kill_with_variable, run_child

_MARK: Final = "AGENTOS_SANDBOX"
_MAX_FILE_BYTES: Final = 2 * 1024**3
_PROBE_SECONDS: Final = 10.0

# Variables a command gets from ours. Everything else stays behind: an allowlist forgets nobody's secret.
_PASSED_ON: Final = (
    *("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT"),
    *("JAVA_HOME", "GOROOT", "GOPATH", "GOMODCACHE", "RUSTUP_HOME", "CARGO_HOME", "NODE_PATH"),
)
_LOOKS_SECRET: Final = re.compile(r"key|token|secret|passw|credential|auth_sock|cookie|agentos_", re.IGNORECASE)

# Where secrets and the sockets of agents live, below the user's home.
_HIDDEN_IN_HOME: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store", ".mozilla"),
    *(".config/gh", ".config/gcloud", ".config/hub", ".config/git", ".config/op", ".local/share/keyrings"),
    *(".netrc", ".git-credentials", ".pypirc", ".npmrc", ".cargo/credentials.toml", ".bash_history", ".zsh_history"),
)
_HIDDEN_IN_SYSTEM: Final = ("/run/user", "/run/docker.sock", "/run/dbus", "/run/secrets", "/run/containerd")

# The first process of a namespace: signals do not end it, so it starts the command as its child and passes on how it
# ended, as shells do. A fresh network namespace has its loopback down, and tests talk to themselves over it.
_FIRST_PROCESS: Final = """
import fcntl, os, socket, struct, sys
if sys.argv[1] == "loopback":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
child = os.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
ended = 0
while ended != child:
    ended, status = os.wait()
code = os.waitstatus_to_exitcode(status)
os._exit(code if code >= 0 else 128 - code)
"""


class Isolation(Enum):
    """What stands between a command and the machine, the strongest first."""

    BWRAP = "bwrap"
    NAMESPACES = "unshare"
    NONE = "none"

    def words(self) -> str:
        """For reports: what is kept from the command, and what is not."""
        return {
            Isolation.BWRAP: "bwrap: no network, read-only outside the project, secrets and other processes hidden",
            Isolation.NAMESPACES: "unshare: no network, other processes hidden; files are open to it as to the user",
            Isolation.NONE: "none: a time limit and a clean environment only; install bubblewrap for isolation",
        }[self]


class CommandMissingError(AgentosError):
    """The program to run is not there."""


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a command ended."""

    exit_code: int | None
    """None when a signal or the time limit ended it."""
    signal_number: int | None
    timed_out: bool
    output: str
    """Standard output and error together; the middle is left out when there is too much, and a line says so."""
    seconds: float
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A place for the commands of one worktree."""

    worktree_path: Path
    isolation: Isolation | None = None
    """None: the strongest this machine has."""
    allow_network: bool = False
    passed_on: tuple[str, ...] = ()
    """Further variables of ours a command gets; names that look like secrets are refused."""
    readable: tuple[Path, ...] = ()
    """Directories to show even when they are in a hidden one."""
    hidden: tuple[Path, ...] = ()
    """Further files and directories to hide where the isolation can: the `.env` of the user's checkout."""
    repository_path: Path | None = None
    """The whole worktree, when the project is a folder of it: shown, and not to be written to."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        scratch_dir: Path | None = None,
        output_limit_bytes: int = 200_000,
    ) -> SandboxResult:
        """Run a command in the worktree. When this returns, nothing that it started is running.

        `scratch_dir` is writable, holds the command's home and temporary files, and outlives it; without one they are
        removed. Raises CommandMissingError when there is no such program.
        """
        with _scratch(scratch_dir) as scratch:
            mark = uuid.uuid4().hex
            given = {
                **sandbox_environment(environment(), scratch, Path.home(), self.passed_on),
                **(env or {}),
                _MARK: mark,
            }
            program = _resolve(argv[0], self.worktree_path, given["PATH"])
            isolation = self.isolation or strongest_isolation()
            wrapped = self._wrap(isolation, [*_limits(), program, *argv[1:]], scratch)
            try:
                result = run_child(
                    wrapped,
                    cwd=self.worktree_path,
                    env=given,
                    timeout_seconds=timeout_seconds,
                    limit_bytes=output_limit_bytes,
                    merge_stderr=True,
                )
            finally:
                if isolation is Isolation.NONE:
                    # Without a process namespace, one that left its group is known by this mark alone.
                    kill_with_variable(_MARK, mark)
        return _typed(result, isolation)

    def _wrap(self, isolation: Isolation, argv: list[str], scratch: Path) -> list[str]:
        match isolation:
            case Isolation.BWRAP:
                shown = (self.repository_path, *self.readable) if self.repository_path else self.readable
                binds = _binds(self.worktree_path, scratch, readable=shown, hidden=self.hidden)
                return [*_bwrap(binds, allow_network=self.allow_network), "--", *argv]
            case Isolation.NAMESPACES:
                return [*_unshare(allow_network=self.allow_network), *argv]
            case Isolation.NONE:
                return argv


def _typed(result: ChildResult, isolation: Isolation) -> SandboxResult:
    exit_code, signal_number = result.exit_code, result.signal_number
    if isolation is not Isolation.NONE and exit_code is not None and 128 < exit_code <= 128 + 64:
        # Both report their child's signal as shells do.
        signal_number, exit_code = exit_code - 128, None
    return SandboxResult(
        exit_code=None if result.timed_out else exit_code,
        signal_number=signal_number,
        timed_out=result.timed_out,
        output=result.stdout.text(),
        seconds=result.seconds,
        isolation=isolation,
    )


def sandbox_environment(
    environment: Mapping[str, str], scratch_dir: Path, user_home: Path, passed_on: Sequence[str] = ()
) -> dict[str, str]:
    """The whole environment of a command (pure). UsageError when a secret is to be passed on by name."""
    for name in passed_on:
        if _LOOKS_SECRET.search(name):
            raise UsageError(
                f"{name} looks like a secret and is not given to model-written code: take it off the list"
            )
    chosen = {name: environment[name] for name in (*_PASSED_ON, *passed_on) if name in environment}
    folders = [folder for folder in chosen.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    return {
        **chosen,
        "PATH": os.pathsep.join(folders),
        "HOME": str(scratch_dir / "home"),
        "TMPDIR": str(scratch_dir / "tmp"),
        "XDG_CACHE_HOME": str(scratch_dir / "home" / ".cache"),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Packages the user installed for themselves stay importable although HOME is another directory.
        "PYTHONUSERBASE": str(user_home / ".local"),
    }


@contextlib.contextmanager
def _scratch(given: Path | None) -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        if given is None:
            # Files a test made unreadable or is still writing must not turn a good result into an error.
            temporary = tempfile.TemporaryDirectory(prefix="agentos-sandbox-", ignore_cleanup_errors=True)
            given = Path(stack.enter_context(temporary))
        for name in ("home", "tmp"):
            (given / name).mkdir(parents=True, exist_ok=True)
        yield given.resolve()


def _resolve(program: str, worktree_path: Path, search_path: str) -> str:
    if "/" in program:
        candidate = worktree_path / program
        found = str(candidate) if candidate.is_file() and os.access(candidate, os.X_OK) else None
    else:
        found = shutil.which(program, path=search_path)
    if found is None:
        raise CommandMissingError(f"{program} is not an installed program: install it or configure another command")
    return found


@functools.cache
def _limits() -> tuple[str, ...]:
    """A small program in front that forbids core dumps and endless files, where there is one."""
    prlimit = shutil.which("prlimit")
    return (prlimit, "--core=0", f"--fsize={_MAX_FILE_BYTES}", "--") if prlimit else ()


def _binds(worktree_path: Path, scratch: Path, *, readable: Sequence[Path], hidden: Sequence[Path]) -> list[str]:
    """Hide first, then show: the worktree may well be inside of a hidden directory."""
    arguments: list[str] = []
    for path in _hidden_paths(hidden):
        if path.is_dir():
            arguments += ["--tmpfs", str(path)]
        elif path.exists():
            arguments += ["--ro-bind", os.devnull, str(path)]
    for path in readable:
        arguments += ["--ro-bind-try", str(path), str(path)]
    for path in (worktree_path.resolve(), scratch):
        arguments += ["--bind", str(path), str(path)]
    # Changing where `.git` points would lead the user's next git command there.
    git_link = worktree_path.resolve() / ".git"
    if git_link.exists():
        arguments += ["--ro-bind", str(git_link), str(git_link)]
    return arguments


def _hidden_paths(further: Sequence[Path]) -> list[Path]:
    home = Path.home()
    named = [home_dir(), *(home / name for name in _HIDDEN_IN_HOME), *map(Path, _HIDDEN_IN_SYSTEM), *further]
    # A link is mounted over where it leads to; twice the same place is once too often.
    return list(dict.fromkeys(path.resolve() for path in named if path.exists()))


def _bwrap(binds: Sequence[str], *, allow_network: bool) -> list[str]:
    return [
        shutil.which("bwrap") or "bwrap",
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *(() if allow_network else ("--unshare-net",)),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *binds,
    ]


def _unshare(*, allow_network: bool) -> list[str]:
    return [
        shutil.which("unshare") or "unshare",
        *("--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *(() if allow_network else ("--net",)),
        *("--", sys.executable, "-I", "-S", "-c", _FIRST_PROCESS),
        "no loopback" if allow_network else "loopback",
    ]


def strongest_isolation() -> Isolation:
    """The best that this machine can do."""
    return next(isolation for isolation in Isolation if is_available(isolation))


@functools.cache
def is_available(isolation: Isolation) -> bool:
    """Whether this machine can do it, found out by trying it once."""
    match isolation:
        case Isolation.BWRAP:
            return _works([*_bwrap([], allow_network=False), "--", "true"])
        case Isolation.NAMESPACES:
            return _works([*_unshare(allow_network=False), "true"])
        case Isolation.NONE:
            return True


def _works(argv: list[str]) -> bool:
    try:
        env = {"PATH": environment().get("PATH", os.defpath)}
        result = run_child(argv, cwd=Path("/"), env=env, timeout_seconds=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return False
    return result.exit_code == 0
