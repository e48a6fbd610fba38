"""Git worktrees of one repository, a branch each; the user's own checkout, branch, index and hooks stay untouched."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentos.errors import AgentosError, UsageError
from agentos.files import files_below, locked, remove_tree, write_whole
from agentos.git.command import OWNER_VARIABLE, Git, GitError
from agentos.git.provisioning import ProvidedFile, provide_files
from agentos.git.unsaved_work import UnsavedWork, find_unsaved_work
from agentos.hints import Hint
from agentos.paths import repository_lock_path, worktrees_dir
from agentos.text.identifiers import sanitize_identifier

BRANCH_PREFIX: Final = "agentos/"
# Git locks a worktree with this reason while `git worktree add` is at work: what a killed one leaves behind.
_HALF_MADE: Final = "initializing"
_ORIGIN_FILE: Final = "agentos.json"
_UNREADABLE_RECORD: Final = re.compile(r"failed to read \S*/worktrees/(?P<name>[^/]+)/")
LIST_PAUSES_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class NoCheckoutError(UsageError):
    """The folder is in no git repository."""


class WouldLoseWorkError(AgentosError):
    """Removing a worktree would lose work."""


@dataclass(frozen=True, slots=True)
class Origin:
    base: str
    """As the user named it: a branch, a tag, a commit."""
    commit: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree as git knows it."""

    path: Path
    head: str
    branch: str | None
    git_dir: Path
    lock_reason: str | None = None

    @property
    def is_half_made(self) -> bool:
        return self.lock_reason == _HALF_MADE

    @property
    def slug(self) -> str | None:
        """The workstream this is the worktree of, told by its branch."""
        if self.branch is None or not self.branch.startswith(BRANCH_PREFIX):
            return None
        return self.branch.removeprefix(BRANCH_PREFIX)

    def git(self) -> Git:
        """Git in this worktree, whatever happened to its `.git` file; stale locks of it and its branch are ours."""
        owned = [self.git_dir]
        if self.branch is not None:
            owned.append(self.git_dir.parent.parent / "refs" / "heads" / f"{self.branch}.lock")
        origin = read_origin(self)
        return Git(
            self.path,
            git_dir=self.git_dir,
            owned_locks=tuple(owned),
            is_untrusted=True,
            attributes_from=origin.commit if origin else "",
        )


@dataclass(frozen=True, slots=True)
class Created:
    """A worktree that is ready, and what was put into it besides its commit."""

    worktree: Worktree
    origin: Origin
    provided: tuple[ProvidedFile, ...]
    was_there: bool


def branch_of(slug: str) -> str:
    return f"{BRANCH_PREFIX}{sanitize_identifier(slug)}"


@dataclass(frozen=True, slots=True)
class Repository:
    """The user's repository, seen from outside: makes, finds and removes our worktrees of it."""

    project_dir: Path
    common_dir: Path
    """The git directory all worktrees share."""
    worktrees_dir: Path

    @classmethod
    def open(cls, project_dir: Path, configured_dir: Path | None = None) -> Repository:
        """The repository `project_dir` is in. Raises NoCheckoutError when it is in none."""
        git = Git(project_dir)
        try:
            answer = git.text("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
        except GitError as error:
            raise NoCheckoutError(
                f"{project_dir} is not in a git checkout ({error.stderr_tail}): "
                f"run `{Hint.GIT_INIT.line(folder=project_dir)}` or go to one"
            ) from None
        if answer.count("\n") != 1:
            raise UsageError(f"{str(project_dir)!r} has a line break in its path: rename that folder")
        common_dir, top_level = answer.split("\n")
        # Resolved, since git writes down where worktrees really are.
        directory = (configured_dir or worktrees_dir(Path(top_level))).resolve()
        return cls(Path(top_level), Path(common_dir), directory)

    @property
    def git(self) -> Git:
        """Git in the user's checkout: for questions, and for what touches neither its files nor its index."""
        return Git(self.project_dir)

    def path_for(self, slug: str) -> Path:
        return self.worktrees_dir / sanitize_identifier(slug)

    def worktrees(self) -> tuple[Worktree, ...]:
        """All linked worktrees, also those made by hand and those whose directory is gone; not the main checkout."""
        try:
            return self._listed()
        except GitError:
            # One record that is just being written or deleted makes git give up on all of them.
            with self.locked():
                return self._listed_alone()

    def _listed(self) -> tuple[Worktree, ...]:
        listing = self.git.run("worktree", "list", "--porcelain", "-z").stdout
        return tuple(_parse_worktree_list(listing, _git_dirs(self.common_dir)))

    def _listed_alone(self) -> tuple[Worktree, ...]:
        """The same for the holder of the lock: nobody but the user's own git can get in between.

        That passes in an instant; a record that a killed git left half written is removed.
        """
        for pause_seconds in LIST_PAUSES_SECONDS:
            try:
                return self._listed()
            except GitError:
                time.sleep(pause_seconds)
        while True:
            try:
                return self._listed()
            except GitError as error:
                unreadable = _UNREADABLE_RECORD.search(error.stderr_tail)
                if unreadable is None:
                    raise
                admin_dir = self.common_dir / "worktrees" / unreadable["name"]
                if _lock_words(admin_dir) != _HALF_MADE:
                    raise
                shutil.rmtree(admin_dir)

    def find(self, slug: str) -> Worktree | None:
        """The worktree of a workstream, wherever it was moved to."""
        return self._find_in(self.worktrees(), slug)

    @staticmethod
    def _find_in(worktrees: Sequence[Worktree], slug: str) -> Worktree | None:
        return next((worktree for worktree in worktrees if worktree.branch == branch_of(slug)), None)

    def repair_moved(self) -> tuple[Path, ...]:
        """Tell git about worktrees of ours that were moved with plain `mv` to a place next to where they were."""
        if not self._moved(self.worktrees()):
            return ()
        with self.locked():
            return self._repair_moved_alone(self._listed_alone())

    def _repair_moved_alone(self, worktrees: Sequence[Worktree]) -> tuple[Path, ...]:
        moved = self._moved(worktrees)
        for new_path in moved:
            self.git.run("worktree", "repair", str(new_path))
        return moved

    def _moved(self, worktrees: Sequence[Worktree]) -> tuple[Path, ...]:
        lost = [worktree for worktree in worktrees if worktree.slug is not None and not worktree.path.exists()]
        return tuple(new_path for worktree in lost if (new_path := self._moved_to(worktree)) is not None)

    def _moved_to(self, worktree: Worktree) -> Path | None:
        for directory in dict.fromkeys((self.worktrees_dir, worktree.path.parent)):
            for candidate in sorted(directory.glob("*")) if directory.is_dir() else ():
                # Hidden ones are on their way out: see `_put_away`.
                if not candidate.name.startswith(".") and _points_to(candidate / ".git", worktree.git_dir):
                    return candidate
        return None

    def create(self, slug: str, *, base: str = "HEAD", files: Sequence[str] = ()) -> Created:
        """A worktree on branch `agentos/{slug}`, made from `base` or found as it is; safe to repeat after a crash.

        `files` are ignored files of the user's checkout (paths or globs) that the worktree gets too.
        """
        with self.locked() as lock:
            # Others wait for the lock meanwhile: git is asked for its list once, and again only if that was wrong.
            worktrees = self._listed_alone()
            if self._repair_moved_alone(worktrees):
                worktrees = self._listed_alone()
            worktree = self._find_in(worktrees, slug)
            was_there = worktree is not None and self._is_whole(worktree)
            if worktree is None or not was_there:
                self._clear_remains(slug, worktrees)
                worktree = self._add(slug, base, lock)
        origin = read_origin(worktree)
        if origin is not None and was_there:
            return Created(worktree, origin, (), was_there)
        provided = provide_files(self.project_dir, worktree.path, worktree.git(), files)
        origin = origin or self._guess_origin(worktree, base)
        _write_origin(worktree, origin)
        return Created(worktree, origin, provided, was_there)

    def unsaved_work(self, slug: str, worktree: Worktree | None, *, base: str = "HEAD") -> UnsavedWork | None:
        """What removing a workstream would lose; None when there is nothing git could be asked about.

        A branch whose worktree is gone holds work too; `base` says where that would have to be merged.
        """
        if worktree is not None:
            if worktree.is_half_made:
                return None
            return find_unsaved_work(self.git, worktree.git(), worktree.branch, self._merge_target(worktree))
        if self.git.resolve(f"refs/heads/{branch_of(slug)}") is None:
            return None
        into = base if self.git.resolve(base) else "HEAD"
        return find_unsaved_work(self.git, Git(self.path_for(slug)), branch_of(slug), into)

    def remove(
        self, slug: str, *, base: str = "HEAD", force: bool = False, delete_branch: bool = False
    ) -> UnsavedWork | None:
        """Remove the worktree (and its branch if asked). Returns what was lost with it, None when there was nothing.

        Refused with WouldLoseWorkError unless `force`. Safe to call again after a crash, and by many at once.
        """
        with self.locked() as lock:
            listed = self._listed_alone()
            worktree = self._find_in(listed, slug)
            if worktree is None and not force:
                self._refuse_switched(slug, listed)
            unsaved = self.unsaved_work(slug, worktree, base=base) if worktree is not None or delete_branch else None
            if unsaved is not None and not unsaved.is_nothing and not force:
                raise WouldLoseWorkError(f"{slug} is not removed: {unsaved.words()}; use --force to discard it")
            if worktree is not None:
                self._put_away(slug, worktree, lock, force=force)
            if delete_branch:
                self._delete_branch(branch_of(slug))
        # What takes long is done after the lock is given back.
        _sweep_trash(worktree.path if worktree is not None else self.path_for(slug))
        return unsaved if unsaved is not None and not unsaved.is_nothing else None

    def ahead_behind(self, worktree: Worktree) -> tuple[int, int]:
        """How many commits the worktree is ahead of and behind the branch it should be merged into."""
        commits = f"{self._merge_target(worktree)}...{worktree.head}"
        counts = self.git.text("rev-list", "--left-right", "--count", commits, "--")
        behind, ahead = counts.split()
        return int(ahead), int(behind)

    def branches(self) -> tuple[str, ...]:
        """Our branches, with or without a worktree."""
        listing = self.git.text("for-each-ref", "--format=%(refname:short)", f"refs/heads/{BRANCH_PREFIX}")
        return tuple(listing.splitlines())

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """One at a time adds, removes or repairs a worktree of a repository: two trip over `.git/worktrees`.

        A git that changes one holds the lock along with us: it may outlive us for a moment when we are killed.
        """
        with locked(repository_lock_path(self.common_dir), timeout_seconds=300.0) as lock:
            yield lock

    def _is_whole(self, worktree: Worktree) -> bool:
        if worktree.is_half_made or not worktree.path.is_dir():
            return False
        if not _points_to(worktree.path / ".git", worktree.git_dir):
            _restore_link(worktree)
        return True

    def _clear_remains(self, slug: str, worktrees: Sequence[Worktree]) -> None:
        """Remove what a killed `git worktree add` or a deleted directory left, and nothing else."""
        path = self.path_for(slug)
        for worktree in worktrees:
            if worktree.path == path or worktree.branch == branch_of(slug):
                self._clear_listed(worktree)
        for admin_dir in (self.common_dir / "worktrees").glob(f"{path.name}*"):
            is_unfinished = not (admin_dir / "gitdir").exists()
            if is_unfinished and (_lock_words(admin_dir) == _HALF_MADE or not any(admin_dir.iterdir())):
                shutil.rmtree(admin_dir)
        _sweep_trash(path)
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists and is not a worktree of {self.project_dir}: move it away and try again")

    def _clear_listed(self, worktree: Worktree) -> None:
        if worktree.is_half_made:
            remove_tree(worktree.path)
        if worktree.path.exists():
            raise UsageError(_switched_words(worktree))
        self.git.run("worktree", "remove", "--force", "--force", str(worktree.path))

    def _add(self, slug: str, base: str, lock: int) -> Worktree:
        path, branch = self.path_for(slug), branch_of(slug)
        tip = self.git.resolve(f"refs/heads/{branch}")
        commit = tip or self.git.resolve(base)
        if commit is None:
            raise UsageError(f"{base!r} names no commit in {self.project_dir}: commit something or name another base")
        self._make_worktrees_dir()
        where = [str(path), branch] if tip else ["--no-track", "-b", branch, str(path), commit]
        owned = (self.common_dir / "refs" / "heads" / f"{branch}.lock",)
        # Untrusted from the start: files that a filter wrote would look changed to a git that runs none.
        git = replace(self.git, owned_locks=owned, is_untrusted=True, held_lock=lock)
        git.run("worktree", "add", *where, env={OWNER_VARIABLE: str(path)}, timeout_seconds=600)
        git_dir = _git_dirs(self.common_dir).get(path)
        if git_dir is None:
            raise AgentosError(f"git made no worktree at {path}, and gave no reason")
        return Worktree(path, commit, branch, git_dir)

    def _make_worktrees_dir(self) -> None:
        """Where the user wants it inside of the checkout, git there must not take worktrees for the user's files."""
        self.worktrees_dir.mkdir(parents=True, exist_ok=True)
        ignore_path = self.worktrees_dir / ".gitignore"
        is_inside = self.project_dir.resolve() in self.worktrees_dir.resolve().parents
        if is_inside and not ignore_path.exists():
            ignore_path.write_text("*\n")

    def _guess_origin(self, worktree: Worktree, base: str) -> Origin:
        commit = self.git.resolve(base)
        if commit is None:
            return Origin(base, worktree.head)
        merge_base = self.git.run("merge-base", commit, worktree.head, ok=(0, 1)).stdout.strip()
        return Origin(self._branch_name(base), merge_base or worktree.head)

    def _branch_name(self, base: str) -> str:
        """HEAD moves with the user; the branch it is on now does not."""
        if base != "HEAD":
            return base
        name = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1)).stdout.strip()
        return name or self.git.text("rev-parse", "HEAD")

    def _merge_target(self, worktree: Worktree) -> str:
        origin = read_origin(worktree)
        return origin.base if origin is not None and self.git.resolve(origin.base) is not None else "HEAD"

    def _refuse_switched(self, slug: str, worktrees: Sequence[Worktree]) -> None:
        """A worktree that somebody switched to another branch holds work that we know nothing about."""
        for worktree in worktrees:
            if worktree.path == self.path_for(slug) and worktree.path.exists():
                raise UsageError(_switched_words(worktree))

    def _put_away(self, slug: str, worktree: Worktree, lock: int, *, force: bool) -> None:
        """Out of sight in one step, forgotten by git in the next, deleted later: a crash leaves no half worktree."""
        if worktree.lock_reason not in (None, _HALF_MADE) and not force:
            reason = worktree.lock_reason or "no reason given"
            raise UsageError(f"{slug} is locked by `git worktree lock` ({reason}): unlock it or use --force")
        trash_path = worktree.path.with_name(f".{worktree.path.name}.removing-{uuid.uuid4().hex[:8]}")
        with contextlib.suppress(FileNotFoundError):
            worktree.path.rename(trash_path)
        git = replace(self.git, held_lock=lock)
        git.run("worktree", "remove", "--force", "--force", str(worktree.path))

    def _delete_branch(self, branch: str) -> None:
        """Without `git branch -D`, which would also edit the user's configuration file."""
        commit = self.git.resolve(f"refs/heads/{branch}")
        if commit is not None:
            self.git.run("update-ref", "-d", f"refs/heads/{branch}", commit)


def _parse_worktree_list(listing: str, git_dirs: dict[Path, Path]) -> Iterator[Worktree]:
    """The linked worktrees in the answer of `git worktree list --porcelain -z` (pure).

    `git_dirs` says which git directory belongs to a path; the main checkout has none there and is left out.
    """
    for block in listing.split("\0\0"):
        fields = dict(_split_field(line) for line in block.split("\0") if line)
        path = Path(fields.get("worktree", ""))
        if path not in git_dirs:
            continue
        branch = fields.get("branch")
        yield Worktree(
            path=path,
            head=fields.get("HEAD", ""),
            branch=branch.removeprefix("refs/heads/") if branch else None,
            git_dir=git_dirs[path],
            lock_reason=fields.get("locked"),
        )


def _split_field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(" ")
    return name, value


def _git_dirs(common_dir: Path) -> dict[Path, Path]:
    """Worktree path to its git directory, from the files git keeps about it."""
    found: dict[Path, Path] = {}
    for gitdir_file in (common_dir / "worktrees").glob("*/gitdir"):
        with contextlib.suppress(OSError):
            target = gitdir_file.read_text(errors="surrogateescape").strip()
            found[Path(os.path.normpath(gitdir_file.parent / target)).parent] = gitdir_file.parent
    return found


def _switched_words(worktree: Worktree) -> str:
    return f"{worktree.path} is on {worktree.branch or 'no branch'}: switch it back to its branch or remove it"


def _lock_words(admin_dir: Path) -> str | None:
    try:
        return (admin_dir / "locked").read_text(errors="replace").strip()
    except OSError:
        return None


def _points_to(link_path: Path, git_dir: Path) -> bool:
    try:
        words = link_path.read_text(errors="surrogateescape").strip()
    except OSError:
        return False
    target = words.removeprefix("gitdir: ")
    return Path(os.path.normpath(link_path.parent / target)) == git_dir


def _restore_link(worktree: Worktree) -> None:
    """Put the `.git` file back that somebody removed or redirected; the worktree's other files stay as they are."""
    link_path = worktree.path / ".git"
    if link_path.is_dir() and not link_path.is_symlink():
        raise UsageError(f"{link_path} is a repository of its own: move it away, it hides the worktree's")
    write_whole(link_path, os.fsencode(f"gitdir: {worktree.git_dir}\n"))


def read_origin(worktree: Worktree) -> Origin | None:
    """Where the branch started, if we made the worktree and finished making it."""
    try:
        record = json.loads((worktree.git_dir / _ORIGIN_FILE).read_text())
        return Origin(str(record["base"]), str(record["commit"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_origin(worktree: Worktree, origin: Origin) -> None:
    record = {"base": origin.base, "commit": origin.commit}
    write_whole(worktree.git_dir / _ORIGIN_FILE, json.dumps(record))


def _sweep_trash(path: Path) -> None:
    for trash_path in path.parent.glob(f".{path.name}.removing-*"):
        remove_tree(trash_path)


def size_on_disk(path: Path) -> int:
    """Bytes that the files below `path` take up; links are not followed, files that vanish meanwhile do not count."""
    total = 0
    for entry in files_below(path):
        with contextlib.suppress(OSError):
            total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
