"""Tries a merge order without touching anything: which branches merge cleanly, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentos.errors import UsageError
from agentos.git.command import Git, GitError
from agentos.git.commits import Author
from agentos.git.worktrees import Repository

_SCRATCH_AUTHOR: Final = Author("agentos", "agentos@localhost")


@dataclass(frozen=True, slots=True)
class MergeCheck:
    """How one branch merges after those before it in the order."""

    branch: str
    conflicts: tuple[str, ...] = ()
    """Files both sides changed in ways git cannot combine."""
    problem: str | None = None
    """Why it could not be tried: the branch is gone, the histories are unrelated."""

    @property
    def is_clean(self) -> bool:
        return not self.conflicts and self.problem is None


def check_merges(repository: Repository, base: str, branches: Sequence[str]) -> tuple[MergeCheck, ...]:
    """Merge `branches` into `base` in order, in memory; one that does not merge is left out of what follows.

    The user's repository is not written to: the objects of the trial go to a scratch directory.
    """
    start = repository.git.resolve(base)
    if start is None:
        raise UsageError(f"{base!r} names no commit in {repository.project_dir}")
    with tempfile.TemporaryDirectory(prefix="agentos-merge-") as scratch_dir:
        git = _scratch_git(repository, Path(scratch_dir))
        checks = []
        for branch in branches:
            check, start = _try_merge(git, start, branch)
            checks.append(check)
    return tuple(checks)


def _scratch_git(repository: Repository, scratch_dir: Path) -> Git:
    objects = {
        "GIT_OBJECT_DIRECTORY": str(scratch_dir),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(repository.common_dir / "objects"),
    }
    return replace(repository.git, extra_env=objects | _SCRATCH_AUTHOR.environment())


def _quoted(path: Path) -> str:
    """One entry of a list that colons separate."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _try_merge(git: Git, start: str, branch: str) -> tuple[MergeCheck, str]:
    """The check, and the commit the next branch is merged into."""
    tip = git.resolve(branch)
    if tip is None:
        return MergeCheck(branch, problem="there is no such branch"), start
    try:
        answer = git.run("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", start, tip, ok=(0, 1))
    except GitError as error:
        return MergeCheck(branch, problem=error.stderr_tail), start
    tree, *conflicts = [part for part in answer.stdout.split("\0") if part]
    if answer.exit_code == 1:
        return MergeCheck(branch, conflicts=tuple(conflicts)), start
    merged = git.text("commit-tree", tree, "-p", start, "-p", tip, "-m", f"Try {branch}")
    return MergeCheck(branch), merged
