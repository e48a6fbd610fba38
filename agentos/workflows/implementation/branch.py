"""The item's branch: where it starts, and back to a known commit whatever a killed node left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from agentos.errors import AgentosError, UsageError
from agentos.files import LockBusyError, locked
from agentos.git.command import GitError
from agentos.git.commits import Author, commit_all
from agentos.git.provisioning import provide_files
from agentos.git.worktrees import BRANCH_PREFIX, Repository, Worktree, branch_of
from agentos.paths import repository_lock_path
from agentos.settings import Settings
from agentos.workflows.implementation.records import no_commit_words

AUTHOR: Final = Author("AgentOS", "agentos@localhost")
KEPT_REFS: Final = "refs/agentos/kept"
"""Where work is kept that was on an item's branch before it started over."""
PATIENCE_SECONDS: Final = 15.0


class BranchBusyError(AgentosError):
    """Another process works on the item's branch."""


class DependencyConflictError(AgentosError):
    """The branches an item depends on cannot be merged with each other."""


@dataclass(frozen=True, slots=True)
class Base:
    """Where an item's branch starts."""

    name: str
    commit: str
    also: tuple[str, ...] = ()
    """Branches to merge into it first: an item may depend on several others."""


def open_repository(project_dir: Path, settings: Settings) -> Repository:
    """The repository the project is, or is a folder of. Raises UsageError when it is in none."""
    configured = settings.workstreams.dir
    return Repository.open(project_dir, project_dir / Path(configured).expanduser() if configured else None)


def folder_of(project_dir: Path, repository: Repository) -> str:
    """The project's folder in its repository, empty when they are the same."""
    folder = project_dir.resolve().relative_to(repository.project_dir.resolve()).as_posix()
    return "" if folder == "." else folder


def seen_from_top(names: Iterable[str], folder: str) -> tuple[str, ...]:
    """Names of files in the project as its repository sees them. Names that lead elsewhere stay as they are."""
    return tuple(f"{folder}/{name}" if folder and not name.startswith("/") else name for name in names)


_held: dict[Path, contextlib.ExitStack] = {}


def hold_branch(repository: Repository, slug: str) -> None:
    """Keep other processes from working on the item's branch for as long as this one lives.

    The lock of a worker that was killed goes with it; one that is about to die is waited for.
    """
    lock_path = repository_lock_path(repository.common_dir, f"{slug}.branch")
    if lock_path in _held:
        return
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(locked(lock_path, timeout_seconds=PATIENCE_SECONDS))
    except LockBusyError:
        raise BranchBusyError(
            f"{branch_of(slug)} is being worked on by another run: wait for it, or stop it."
        ) from None
    _held[lock_path] = stack


def base_commit(repository: Repository, settings: Settings) -> str:
    """The commit of the configured base. Raises UsageError when it names none."""
    commit = repository.git.resolve(settings.implementation.base)
    if commit is None:
        raise UsageError(no_commit_words(settings.implementation.base, repository.project_dir))
    return commit


def choose_base(
    repository: Repository, settings: Settings, depends_on: Sequence[str], *, folder: str = "", prefix: str = ""
) -> Base:
    """The configured base, or the branches of dependencies that are not in it yet.

    `folder` is the project's place in the repository, `prefix` what its branches have before an item's id.
    """
    name, commit = settings.implementation.base, base_commit(repository, settings)
    done_paths = {
        branch_of(f"{prefix}{dependency}"): str(
            PurePosixPath(folder, settings.documents.lld_done_dir, f"LLD-{dependency}.md")
        )
        for dependency in depends_on
    }
    open_branches = [
        branch for branch, done_path in done_paths.items() if not _is_merged(repository, branch, done_path, commit)
    ]
    tips = {branch: tip for branch in open_branches if (tip := repository.git.resolve(f"refs/heads/{branch}"))}
    if not tips:
        return Base(name, commit)
    first, *others = tips
    return Base(first, tips[first], tuple(others))


def base_name(repository: Repository, base: Base) -> str:
    """What people call the base. HEAD moves with the user, the branch it is on now does not."""
    if base.name != "HEAD":
        return base.name
    return repository.git.run("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1)).stdout.strip() or base.name


def _is_merged(repository: Repository, branch: str, done_path: str, into: str) -> bool:
    """Whether an item's work is part of `into`: its commits, or, when they were squashed, its finished design."""
    git = repository.git
    tip = git.resolve(f"refs/heads/{branch}")
    if tip is not None and git.says_yes("merge-base", "--is-ancestor", tip, into):
        return True
    return git.run("cat-file", "-e", f"{into}:{done_path}", ok=(0, 1, 128)).exit_code == 0


def start_branch(
    repository: Repository, settings: Settings, slug: str, base: Base, *, folder: str = ""
) -> tuple[Worktree, str]:
    """The item's worktree, clean and at the commit its work starts from, and that commit.

    Commits that a person made on the branch are built upon. Earlier attempts of ours and files nobody committed are
    kept in a ref, out of the way.
    """
    hold_branch(repository, slug)
    copied = seen_from_top(settings.workstreams.copy, folder)
    linked = seen_from_top(settings.workstreams.link, folder)
    worktree = repository.create(slug, base=base.name, files=copied).worktree
    # The settings may have changed since the worktree was made.
    provide_files(repository.project_dir, worktree.path, worktree.git(), copied)
    if linked:
        provide_files(repository.project_dir, worktree.path, worktree.git(), linked, link=True)
    by_hand = _commit_by_hand(worktree, base.commit)
    start = by_hand or base.commit
    _keep_earlier_work(worktree, slug, start)
    rewind(worktree, start)
    is_dependency = base.name.startswith(BRANCH_PREFIX)
    for branch in (base.name, *base.also) if by_hand and is_dependency else base.also:
        _merge(worktree, branch)
    return worktree, worktree.git().text("rev-parse", "HEAD")


def _commit_by_hand(worktree: Worktree, base_commit: str) -> str | None:
    """The last commit of people's own work on the branch, if nothing of ours is below it."""
    listing = worktree.git().text("log", "--first-parent", "--format=%H %ae", f"{base_commit}..HEAD")
    commits = [line.split(" ", 1) for line in listing.splitlines()]
    while commits and commits[0][1] == AUTHOR.email:
        del commits[0]
    if not commits or any(email == AUTHOR.email for _, email in commits):
        return None
    return commits[0][0]


def rewind(worktree: Worktree, commit: str) -> None:
    """Make branch and files what they were at `commit`: a node that runs again starts where it started before.

    Commits that somebody else made on the branch meanwhile are kept in a ref.
    """
    git = worktree.git()
    head = git.text("rev-parse", "HEAD")
    if head != commit:
        if git.text("log", "-1", "--format=%ae", head) != AUTHOR.email:
            _keep(worktree, head)
        git.run("reset", "--hard", "--quiet", commit)
    else:
        git.run("reset", "--hard", "--quiet")
    git.run("clean", "-d", "--force", "--force", "--quiet")


def _keep_earlier_work(worktree: Worktree, slug: str, start: str) -> None:
    """An earlier attempt's commits, and files nobody committed: they may be worth a look."""
    git = worktree.git()
    commit_all(worktree, f"What was in the worktree of {slug} when it started over", AUTHOR)
    head = git.text("rev-parse", "HEAD")
    if not git.says_yes("merge-base", "--is-ancestor", head, start):
        _keep(worktree, head)


def _keep(worktree: Worktree, commit: str) -> None:
    slug = worktree.slug or "detached"
    worktree.git().run("update-ref", f"{KEPT_REFS}/{slug}/{commit[:12]}", commit)


def _merge(worktree: Worktree, branch: str) -> None:
    message = f"Start from {branch} too"
    try:
        worktree.git().run("merge", "--no-edit", "--no-verify", "-m", message, branch, env=AUTHOR.environment())
    except GitError as error:
        raise DependencyConflictError(
            f"The branches this item depends on do not merge: {branch} conflicts ({error.stderr_tail}). "
            "Merge them by hand and run again."
        ) from None
