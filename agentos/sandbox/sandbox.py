"""Runs model-written code in the strongest sandbox there is, without secrets, within limits, and to its end."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import agentos
from agentos.environment import environment
from agentos.errors import AgentosError, UsageError
from agentos.files import remove_tree, write_whole
from agentos.keys.key_shapes import redact_shapes
from agentos.paths import home_dir
from agentos.processes.children import ChildResult, kill_with_variable, run_child
from agentos.sandbox import kernel, landlock
from agentos.sandbox.isolation import ALLOW_NONE, RISK, STRONGEST, Isolation
from agentos.sandbox.limits import DEFAULT_LIMITS, EndedBy, Limits
from agentos.sandbox.scratch import scratch_folder
from agentos.sandbox.supervisor import Spec, Verdict, read_verdict
from agentos.sandbox.view import make_view

_MARK: Final = "AGENTOS_SANDBOX"
_PROBE_SECONDS: Final = 20.0
# Isolated from whatever the environment says of Python; only its own package is added to where modules are found.
_SUPERVISOR: Final = (
    *(sys.executable, "-I", "-S", "-c"),
    "import sys; sys.path.append(sys.argv.pop(1)); from agentos.sandbox.supervisor import main; main()",
    str(Path(agentos.__file__).resolve().parents[1]),
)

# Variables a command gets from ours. Everything else stays behind: an allowlist forgets nobody's secret.
_PASSED_ON: Final = (
    *("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT"),
    *("JAVA_HOME", "GOROOT", "GOPATH", "GOMODCACHE", "RUSTUP_HOME", "CARGO_HOME", "NODE_PATH"),
)
_LOOKS_SECRET: Final = re.compile(r"key|token|secret|passw|credential|auth_sock|cookie|agentos_", re.IGNORECASE)


class CommandMissingError(AgentosError):
    """The program to run is not there."""


class SandboxError(AgentosError):
    """There could be no sandbox, so the command was not run."""


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a command ended."""

    exit_code: int | None
    """None when a signal, a limit or the time ended it."""
    signal_number: int | None
    timed_out: bool
    output: str
    """Standard output and error together; the middle is left out when there is too much, and a line says so.

    Keys in it are masked."""
    seconds: float
    isolation: Isolation
    ended_by: EndedBy | None = None
    """The limit that ended it."""
    note: str = ""
    """What the sandbox itself has to say; it is the end of the output too."""


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
    """What is shown beside the worktree, installed programs and their libraries; all else is not there."""
    repository_path: Path | None = None
    """The whole worktree, when the project is a folder of it: shown, and not to be written to."""
    limits: Limits = DEFAULT_LIMITS
    mask: Callable[[str], str] = redact_shapes
    """Hides keys in what a command says, before anybody else sees it."""

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
        removed. Raises CommandMissingError when there is no such program, SandboxError when there is no sandbox.
        """
        mark = uuid.uuid4().hex
        with _scratch(scratch_dir) as scratch, _GitLink(self.worktree_path / ".git") as git_link:
            chosen = sandbox_environment(environment(), scratch, Path.home(), self.passed_on)
            given = {**chosen, **(env or {}), _MARK: mark}
            program = _resolve(argv[0], self.worktree_path, given["PATH"])
            isolation = self.isolation or strongest_isolation()
            with _verdict_file() as (verdict_file, verdict_path):
                spec = self._spec(isolation, [program, *argv[1:]], scratch, given, verdict_path)
                try:
                    ended = run_child(
                        [*_SUPERVISOR, spec.as_json()],
                        cwd=self.worktree_path,
                        env=given,
                        timeout_seconds=timeout_seconds,
                        limit_bytes=output_limit_bytes,
                        merge_stderr=True,
                    )
                finally:
                    if isolation in (Isolation.LANDLOCK, Isolation.NONE):
                        # Whoever outlived a killed supervisor is known by this mark alone.
                        kill_with_variable(_MARK, mark)
                verdict = read_verdict(os.pread(verdict_file, 10_000, 0).decode(errors="replace"))
        result = _result(ended, verdict, isolation, self.limits, git_link)
        return replace(result, output=self.mask(result.output))

    def _spec(
        self, isolation: Isolation, argv: list[str], scratch: Path, given: Mapping[str, str], verdict_path: str
    ) -> Spec:
        shown = (self.repository_path, *self.readable) if self.repository_path else self.readable
        view = make_view(
            self.worktree_path,
            scratch,
            program=argv[0],
            readable=shown,
            homes=_homes(),
            environment=given,
            allow_network=self.allow_network,
        )
        return Spec(
            isolation=isolation.value,
            argv=tuple(argv),
            cwd=str(self.worktree_path.resolve()),
            view=view,
            limits=self.limits,
            allow_network=self.allow_network,
            verdict_path=verdict_path,
            starter_pid=os.getpid(),
            bubblewrap=shutil.which("bwrap") or "bwrap",
        )


@contextlib.contextmanager
def _verdict_file() -> Iterator[tuple[int, str]]:
    """An open file and its path, which the supervisor removes as soon as it has opened it too."""
    descriptor, path = tempfile.mkstemp(prefix="agentos-verdict-")
    try:
        yield descriptor, path
    finally:
        os.close(descriptor)
        Path(path).unlink(missing_ok=True)


def _homes() -> list[Path]:
    """Folders that hold what is the user's own."""
    with contextlib.suppress(KeyError):
        return [Path.home(), Path(pwd.getpwuid(os.geteuid()).pw_dir), home_dir()]
    return [Path.home(), home_dir()]


def _result(
    ended: ChildResult, verdict: Verdict | None, isolation: Isolation, limits: Limits, git_link: _GitLink
) -> SandboxResult:
    said = ended.stdout.text()
    if verdict is None:
        # The supervisor was killed: nothing is known but that.
        verdict = Verdict(signal_number=ended.signal_number or signal.SIGKILL)
        if not ended.timed_out and ended.exit_code is not None:
            raise SandboxError(f"The sandbox ({isolation.value}) failed: {said[-400:].strip() or 'no reason given'}")
    if verdict.problem is not None and not ended.timed_out:
        raise SandboxError(f"There is no sandbox ({isolation.value}): {verdict.problem}")
    ended_by = EndedBy(verdict.ended_by) if verdict.ended_by else None
    notes = [ended_by.words(limits)] if ended_by else []
    notes += [git_link.words] if git_link.words else []
    return SandboxResult(
        exit_code=None if ended.timed_out else verdict.exit_code,
        signal_number=verdict.signal_number,
        timed_out=ended.timed_out,
        output="\n".join([said.rstrip("\n"), *notes, ""]) if notes else said,
        seconds=ended.seconds,
        isolation=isolation,
        ended_by=ended_by,
        note="\n".join(notes),
    )


class _GitLink:
    """Keeps the worktree's `.git` file what it is: whoever changed it would choose what the user's next git runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before: bytes | None = None
        self.words = ""

    def __enter__(self) -> _GitLink:
        if self._path.is_file() and not self._path.is_symlink():
            self._before = self._path.read_bytes()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is None or self._is_as_before():
            return
        if self._path.is_dir() and not self._path.is_symlink():
            remove_tree(self._path)
        write_whole(self._path, self._before)
        self.words = "The command changed .git, which was put back."

    def _is_as_before(self) -> bool:
        with contextlib.suppress(OSError):
            return not self._path.is_symlink() and self._path.read_bytes() == self._before
        return False


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
            given = stack.enter_context(scratch_folder("agentos-sandbox-"))
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


def chosen_isolation(name: str, *, allow_none: bool) -> Isolation:
    """The one a setting names, or the strongest.

    UsageError when the machine cannot do it, and when it comes to none and nobody allowed that.
    """
    isolation = strongest_isolation() if name == STRONGEST else Isolation(name)
    if not is_available(isolation):
        raise UsageError(f"implementation.sandbox is {name!r}, which does not work on this machine: leave it out.")
    if isolation is Isolation.NONE and not allow_none:
        why = (
            "this machine has no sandbox (bubblewrap, user namespaces, Landlock)"
            if name == STRONGEST
            else f"implementation.sandbox is {name!r}"
        )
        raise UsageError(
            f"Not started: {why}. {RISK}. Install bubblewrap or let users make namespaces; or take the risk with "
            f"{ALLOW_NONE}, best in a virtual machine that holds nothing of yours."
        )
    return isolation


def readable_paths(project_dir: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """What a setting lets code read: files and folders, relative ones in the project. UsageError for a whole home."""
    paths = [project_dir / Path(name).expanduser() for name in names]
    for name, path in zip(names, paths, strict=True):
        resolved = path.resolve()
        if any(home.resolve().is_relative_to(resolved) for home in _homes()):
            raise UsageError(f"implementation.readable names {name!r}, which holds your home or keys: name less.")
    return tuple(paths)


def strongest_isolation() -> Isolation:
    """The best that this machine can do."""
    return next(isolation for isolation in Isolation if is_available(isolation))


@functools.cache
def is_available(isolation: Isolation) -> bool:
    """Whether this machine can do it, found out by trying it once."""
    if isolation is Isolation.NONE:
        return True
    if isolation is Isolation.LANDLOCK and not (landlock.version() and kernel.MACHINE):
        return False
    with scratch_folder("agentos-probe-") as folder:
        try:
            result = Sandbox(folder, isolation).run(["/bin/sh", "-c", "exit 7"], timeout_seconds=_PROBE_SECONDS)
        except (AgentosError, OSError):
            return False
    return result.exit_code == 7
