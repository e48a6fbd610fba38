"""The unsaved work of a worktree: found with git, said in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentos.git.command import Git, GitError
from agentos.text.words import counted, listed

_NAMED_FILES: Final = 5


@dataclass(frozen=True, slots=True)
class UnsavedWork:
    """Work that exists nowhere else."""

    uncommitted: tuple[str, ...]
    """Changed and new files, as paths in the worktree."""
    unmerged_commits: int
    unpushed_commits: int | None
    """Of the unmerged ones, how many no remote has; None when there is no remote."""
    into: str
    """Where the commits would have to be merged."""

    @property
    def is_nothing(self) -> bool:
        return not self.uncommitted and not self.unmerged_commits

    def words(self) -> str:
        """One line, for a refusal or a warning."""
        parts = []
        if self.uncommitted:
            names = listed(self.uncommitted, _NAMED_FILES)
            parts.append(f"{counted(len(self.uncommitted), 'file')} not committed ({names})")
        if self.unmerged_commits:
            parts.append(f"{counted(self.unmerged_commits, 'commit')} not merged into {self.into}{self._pushed()}")
        return " and ".join(parts) or "nothing would be lost"

    def _pushed(self) -> str:
        if self.unpushed_commits is None:
            return ""
        return f", {self.unpushed_commits} of them on no remote" if self.unpushed_commits else ", all on a remote"


def find_unsaved_work(repository: Git, worktree: Git, branch: str | None, into: str) -> UnsavedWork:
    """Ask git. `repository` is git in the user's checkout; the worktree's directory may be gone already."""
    is_there = worktree.cwd.is_dir()
    tip = f"refs/heads/{branch}" if branch else (worktree.resolve("HEAD") if is_there else None)
    unmerged = _unmerged(repository, tip, into) if tip else 0
    has_remote = bool(repository.text("remote"))
    unpushed = _count_commits(repository, tip, "--remotes", into) if tip and unmerged and has_remote else 0
    return UnsavedWork(
        uncommitted=_uncommitted(worktree) if is_there else (),
        unmerged_commits=unmerged,
        unpushed_commits=unpushed if has_remote else None,
        into=into,
    )


def _uncommitted(worktree: Git) -> tuple[str, ...]:
    # Asking a repository inside of this one would run what its own configuration says.
    look = ("--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    listing = worktree.run("status", "--porcelain", "-z", *look).stdout
    changed = [entry[3:] for entry in listing.split("\0") if entry]
    return tuple(dict.fromkeys([*changed, *_filled_submodules(worktree)]))


def _filled_submodules(worktree: Git) -> list[str]:
    """Worktrees come with empty ones: whatever is there, somebody put there."""
    entries = worktree.run("ls-files", "--stage", "-z").stdout.split("\0")
    paths = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000")]
    folders = [(path, worktree.cwd / path) for path in paths]
    return [path for path, folder in folders if folder.is_dir() and any(folder.iterdir())]


def _unmerged(repository: Git, tip: str, into: str) -> int:
    commits = _count_commits(repository, tip, into)
    return 0 if commits and _is_contained(repository, tip, into) else commits


def _count_commits(repository: Git, tip: str, *without: str) -> int:
    return int(repository.text("rev-list", "--count", tip, "--not", *without, "--"))


def _is_contained(repository: Git, tip: str, into: str) -> bool:
    """Whether merging would change nothing: a squashed or rebased branch has other commits and the same content."""
    try:
        merged_tree = repository.run("merge-tree", "--write-tree", into, tip, ok=(0, 1)).stdout.partition("\n")[0]
        return merged_tree == repository.text("rev-parse", f"{into}^{{tree}}")
    except GitError:
        # Unrelated histories, or a git without `merge-tree --write-tree`: nothing is known to be contained.
        return False
