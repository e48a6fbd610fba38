"""Commits in a worktree: rounds of work, one squashed commit, the best round put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentos.git.command import Git
from agentos.git.worktrees import Worktree

_GITLINK_MODE: Final = "160000"
NO_PROGRAMS: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""Of `git diff` in a worktree: neither a program that compares, nor a look into repositories inside of it."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who a commit is by. Given, not read from the user's configuration: model-written work does not wear a name."""

    name: str
    email: str

    def environment(self) -> dict[str, str]:
        return {
            "GIT_AUTHOR_NAME": self.name,
            "GIT_AUTHOR_EMAIL": self.email,
            "GIT_COMMITTER_NAME": self.name,
            "GIT_COMMITTER_EMAIL": self.email,
        }


def commit_all(worktree: Worktree, message: str, author: Author) -> str | None:
    """Commit everything in the worktree that is not ignored. The new commit, or None when nothing changed.

    A repository inside the worktree (a clone that a test made) is left out rather than recorded as a submodule.
    """
    git = worktree.git()
    git.run("add", "--all")
    if new_links := _new_gitlinks(git):
        git.run("update-index", "--force-remove", "-z", "--stdin", stdin="\0".join(new_links))
    if git.says_yes("diff", *NO_PROGRAMS, "--cached", "--quiet", "--exit-code"):
        return None
    git.run(
        *("commit", "--no-verify", "--no-gpg-sign", "--quiet", "--cleanup=whitespace", "--file=-"),
        stdin=message,
        env=author.environment(),
    )
    return git.text("rev-parse", "HEAD")


def _new_gitlinks(git: Git) -> list[str]:
    listing = git.run(
        "diff", *NO_PROGRAMS, "--cached", "--raw", "--no-renames", "--diff-filter=AT", "-z"
    ).stdout.split("\0")
    return [
        path for header, path in zip(listing[::2], listing[1::2], strict=False) if header.split()[1] == _GITLINK_MODE
    ]


def discard_changes(worktree: Worktree) -> None:
    """Back to the last commit, as after a kill in the middle of a write. Ignored files stay."""
    git = worktree.git()
    git.run("reset", "--hard", "--quiet", "HEAD")
    git.run("clean", "-d", "--force", "--force", "--quiet")


def restore(worktree: Worktree, commit: str, message: str, author: Author) -> str | None:
    """Make the worktree what it was at `commit`, in a new commit so that no round is lost. None if it is already."""
    git = worktree.git()
    discard_changes(worktree)
    git.run("read-tree", "--reset", "-u", commit)
    return commit_all(worktree, message, author)


def squash(worktree: Worktree, base: str, message: str, author: Author) -> str:
    """Replace the branch's commits since `base` by one with the same content; safe to call again.

    The branch moves in one step and only if nobody else moved it, and files and index are not touched.
    """
    git = worktree.git()
    head = git.text("rev-parse", "HEAD")
    parent = git.text("merge-base", base, head)
    if git.text("rev-list", f"{parent}..{head}").splitlines() in ([], [head]):
        return head
    tree = git.text("rev-parse", f"{head}^{{tree}}")
    commit = git.run(
        "commit-tree", tree, "-p", parent, "-F", "-", stdin=message, env=author.environment()
    ).stdout.strip()
    git.run("update-ref", "-m", "agentos: squash", "HEAD", commit, head)
    return commit


def changed_files(worktree: Worktree, since: str) -> tuple[str, ...]:
    """Files the worktree's commits changed since `since`, deleted ones included."""
    names = (
        worktree.git().run("diff", *NO_PROGRAMS, "--name-only", "--no-renames", "-z", f"{since}...HEAD", "--").stdout
    )
    return tuple(name for name in names.split("\0") if name)


def submodule_paths(worktree: Worktree) -> tuple[str, ...]:
    """Paths of the repository's submodules: other people's repositories, not to be written to."""
    entries = worktree.git().run("ls-files", "--stage", "-z").stdout.split("\0")
    return tuple(entry.partition("\t")[2] for entry in entries if entry.startswith(_GITLINK_MODE))
