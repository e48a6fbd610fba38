"""Runs git: never interactive, in bounded time, without secrets in its environment and without the user's hooks."""

from __future__ import annotations

import functools
import random
import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentos.environment import environment
from agentos.errors import AgentosError
from agentos.processes import host
from agentos.processes.children import ChildResult, run_child

# Marks every git we start, and the children git itself starts, with the worktree they work in.
OWNER_VARIABLE: Final = "AGENTOS_GIT_WORKTREE"
# How old a lock must be before its owner is looked for: a git that is just starting may not show in /proc yet.
STALE_LOCK_SECONDS: Final = 1.0
# Without /proc the owner cannot be looked for; no git of ours runs this long (see `timeout_seconds`).
STALE_LOCK_SECONDS_WITHOUT_PROC: Final = 900.0
_OUTPUT_LIMIT_BYTES: Final = 256 * 1024 * 1024
_STDERR_TAIL_CHARACTERS: Final = 600

_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SYSTEMROOT")
_PASSED_ON_GIT: Final = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
# Only a push or fetch may use the user's own credentials, and only git's, never ours.
_PASSED_ON_FOR_NETWORK: Final = (
    "SSH_AUTH_SOCK", "GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
_NON_INTERACTIVE: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "LC_ALL": "C",
}
# What a repository's or a user's configuration may not bring into our commands: programs, prompts, side work.
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=dirty",
    "rerere.enabled=false",
    "log.showSignature=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
)

# Where a worktree holds what nobody has read: nothing of it chooses a program, an address or a name to log in with.
_UNTRUSTED_SETTINGS: Final = (
    "protocol.allow=never",
    "core.sshCommand=false",
    "core.askPass=false",
    "credential.helper=",
    # A branch may change any file, whichever of them the user's own checkout is reduced to.
    "core.sparseCheckout=false",
)
# Programs that attributes choose by name, and what makes each of them do nothing: no filter, and a merge that stops.
_DRIVER_SETTINGS: Final = {
    "filter": ("clean=", "smudge=", "process=", "required=false"),
    "merge": ("driver=false",),
}
_DRIVER: Final = re.compile(r"(?P<kind>filter|merge)\.(?P<name>.+)\.(clean|smudge|process|driver)")
_ATTRIBUTES_FROM_A_COMMIT: Final = (2, 41)
"""The first git that takes attributes from a commit, whatever files say in the worktree."""

_LOCK_PATTERNS: Final = (
    re.compile(r"Unable to create '(?P<path>.+?\.lock)': File exists"),
    re.compile(r"could not lock config file (?P<path>.+?): File exists"),
)


class GitError(AgentosError):
    """A git command failed. `str()` names the command, its directory and the end of what git said."""

    def __init__(self, command: str, cwd: Path, exit_code: int | None, stderr: str) -> None:
        self.command = command
        self.cwd = cwd
        self.stderr_tail = _joined_lines(stderr)[-_STDERR_TAIL_CHARACTERS:]
        super().__init__(f"`{command}` failed in {cwd}: {self.stderr_tail or f'exit code {exit_code}'}")


class GitTimeoutError(GitError):
    """A git command did not finish in its time and was ended."""


class GitLockedError(GitError):
    """A lock file of git stayed for longer than we wait, and it is not ours to remove."""


class GitMissingError(AgentosError):
    """There is no git to run."""


@dataclass(frozen=True, slots=True)
class GitResult:
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one directory. A value: make another one for another directory."""

    cwd: Path
    git_dir: Path | None = None
    """The git directory to use whatever a `.git` file in `cwd` says: model-written code may have changed it."""
    owned_locks: tuple[Path, ...] = ()
    """Where stale locks are ours to remove: the git directory of our own worktree, the lock of our branch."""
    timeout_seconds: float = 120.0
    lock_patience_seconds: float = 20.0
    extra_env: Mapping[str, str] = field(default_factory=dict)
    is_untrusted: bool = False
    """Whether code that nobody has read may have written files here: then no program runs that they could choose."""
    attributes_from: str = ""
    """The commit whose attributes count in an untrusted worktree, where this git can do that."""
    held_lock: int | None = None
    """The descriptor of a lock that git holds along with us: if it outlives us, the lock is free when it ends."""

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        ok: tuple[int, ...] = (0,),
        network: bool = False,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> GitResult:
        """Run `git arguments` and return what it answered, waiting out the locks of others.

        Raises GitError when the exit code is not in `ok`, GitTimeoutError, GitLockedError.
        """
        deadline = time.monotonic() + self.lock_patience_seconds
        pause_seconds = 0.02
        while True:
            result = self._run_once(arguments, stdin, network, env or {}, timeout_seconds or self.timeout_seconds)
            lock_path = None if result.exit_code in ok else lock_in_the_way(result.stderr)
            if lock_path is None:
                break
            if time.monotonic() >= deadline:
                raise GitLockedError(self._words(arguments), self.cwd, result.exit_code, result.stderr)
            if not self._remove_if_stale(self.cwd / lock_path):
                time.sleep(pause_seconds * random.uniform(0.5, 1.5))
                pause_seconds = min(pause_seconds * 2, 0.5)
        if result.exit_code not in ok:
            raise GitError(self._words(arguments), self.cwd, result.exit_code, result.stderr)
        return result

    def text(self, *arguments: str) -> str:
        """What the command printed, without the last line end."""
        return self.run(*arguments).stdout.rstrip("\n")

    def says_yes(self, *arguments: str) -> bool:
        """For questions git answers with exit code 0 or 1."""
        return self.run(*arguments, ok=(0, 1)).exit_code == 0

    def resolve(self, revision: str) -> str | None:
        """The commit a revision names, or None."""
        result = self.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", ok=(0, 1, 128)
        )
        return result.stdout.strip() if result.exit_code == 0 else None

    def _run_once(
        self, arguments: tuple[str, ...], stdin: str, network: bool, env: Mapping[str, str], timeout_seconds: float
    ) -> GitResult:
        given = {**git_environment(environment(), network=network), OWNER_VARIABLE: str(self.cwd)}
        if self.attributes_from and _version() >= _ATTRIBUTES_FROM_A_COMMIT:
            given["GIT_ATTR_SOURCE"] = self.attributes_from
        try:
            result = run_child(
                self._argv(arguments),
                cwd=self.cwd,
                env={**given, **self.extra_env, **env},
                timeout_seconds=timeout_seconds,
                stdin=stdin.encode(),
                limit_bytes=_OUTPUT_LIMIT_BYTES,
                inherited=() if self.held_lock is None else (self.held_lock,),
            )
        except (FileNotFoundError, NotADirectoryError):
            raise GitError(self._words(arguments), self.cwd, None, "the directory does not exist") from None
        return self._checked(arguments, result)

    def _checked(self, arguments: tuple[str, ...], result: ChildResult) -> GitResult:
        words = self._words(arguments)
        if result.timed_out:
            said = f"no answer within its time limit; it was ended after {result.seconds:.0f} s"
            raise GitTimeoutError(words, self.cwd, None, said)
        if result.stdout.dropped_bytes:
            raise GitError(words, self.cwd, None, f"it printed more than {_OUTPUT_LIMIT_BYTES} bytes")
        if result.exit_code is None:
            raise GitError(words, self.cwd, None, f"ended by signal {result.signal_number}")
        stdout = (result.stdout.head + result.stdout.tail).decode("utf-8", "surrogateescape")
        return GitResult(result.exit_code, stdout, result.stderr.text())

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        chosen = (*_SETTINGS, *(self._untrusted_settings() if self.is_untrusted else ()))
        settings = [word for setting in chosen for word in ("-c", setting)]
        place = [f"--git-dir={self.git_dir}", f"--work-tree={self.cwd}"] if self.git_dir else []
        program = shutil.which("git")
        if program is None:
            raise GitMissingError("git is not installed or not on PATH: install git 2.38 or newer")
        return [program, "--no-pager", *settings, *place, *arguments]

    def _untrusted_settings(self) -> tuple[str, ...]:
        return (*_UNTRUSTED_SETTINGS, *_driver_settings(self.git_dir or self.cwd))

    def _words(self, arguments: tuple[str, ...]) -> str:
        return _joined_lines(shlex.join(["git", *arguments]))[:200]

    def _remove_if_stale(self, lock_path: Path) -> bool:
        is_ours = any(lock_path == owned or owned in lock_path.parents for owned in self.owned_locks)
        return is_ours and remove_stale_lock(lock_path, owner=str(self.cwd), now=time.time())


@functools.cache
def _driver_settings(git_dir: Path) -> tuple[str, ...]:
    """What turns off every program that attributes could choose. Which there are, the user's configuration says.

    Asked once per process: code in a sandbox cannot write configuration.
    """
    listing = Git(git_dir.parent if git_dir.name == ".git" else git_dir).run("config", "--list", "--name-only", "-z")
    found = {
        (match["kind"], match["name"]) for name in listing.stdout.split("\0") if (match := _DRIVER.fullmatch(name))
    }
    return tuple(f"{kind}.{name}.{setting}" for kind, name in sorted(found) for setting in _DRIVER_SETTINGS[kind])


@functools.cache
def _version() -> tuple[int, int]:
    said = re.search(r"(\d+)\.(\d+)", Git(Path("/")).text("version"))
    return (int(said[1]), int(said[2])) if said else (0, 0)


def git_environment(environment: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """The few variables git gets from ours (pure). GIT_DIR and its kin stay behind: they redirect every command."""
    names = (*_PASSED_ON, *_PASSED_ON_GIT, *(_PASSED_ON_FOR_NETWORK if network else ()))
    passed_on = {name: environment[name] for name in names if name in environment}
    return {**passed_on, **_NON_INTERACTIVE}


def lock_in_the_way(stderr: str) -> Path | None:
    """The lock file that made git give up, read from its words: git has no other way to say it (pure)."""
    for pattern in _LOCK_PATTERNS:
        if match := pattern.search(stderr):
            path = match["path"]
            return Path(path if path.endswith(".lock") else f"{path}.lock")
    return None


def remove_stale_lock(lock_path: Path, *, owner: str, now: float) -> bool:
    """Remove a lock whose git is dead: old enough, and no living git of ours works for `owner`."""
    try:
        age_seconds = now - lock_path.stat().st_mtime
    except FileNotFoundError:
        return True
    can_look = Path("/proc/self/environ").exists()
    if age_seconds < (STALE_LOCK_SECONDS if can_look else STALE_LOCK_SECONDS_WITHOUT_PROC):
        return False
    if host.processes_with(OWNER_VARIABLE, owner):
        return False
    lock_path.unlink(missing_ok=True)
    return True


def _joined_lines(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())
