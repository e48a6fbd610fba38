"""What is known about implemented designs without asking git: one record per item, and the branches."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.paths import attempted_path, implemented_path
from agentos.text.identifiers import sanitize_identifier

_LONGEST_PREFIX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Implemented:
    """A design that became code."""

    document_hash: str
    branch: str
    commit: str
    base: str
    title: str = ""
    reason: str = ""
    """Why a person has to look at it; empty when it is implemented."""
    started: str = ""
    """The commit that the branch started from; empty in records of earlier versions."""
    is_rehearsal: bool = False
    """The offline model wrote it: it is nobody's to merge or publish."""


def record_path(project_dir: Path, item_id: str) -> Path:
    return implemented_path(project_dir, sanitize_identifier(item_id))


def attempt_path(project_dir: Path, item_id: str) -> Path:
    return attempted_path(project_dir, sanitize_identifier(item_id))


def as_text(record: Implemented) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def read_record(project_dir: Path, item_id: str) -> Implemented | None:
    """The record of an item, None when there is none or it cannot be read."""
    return _read(record_path(project_dir, item_id))


def read_attempt(project_dir: Path, item_id: str) -> Implemented | None:
    """The record of an item whose code needs revision."""
    return _read(attempt_path(project_dir, item_id))


def _read(path: Path) -> Implemented | None:
    try:
        return Implemented(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def has_branch(project_dir: Path, branch: str) -> bool:
    """Whether the repository has a branch, read from git's own files: a dry run starts no process."""
    return _tip(project_dir, branch) is not None


def has_code(project_dir: Path, record: Implemented) -> bool:
    """Whether the branch is there and has code: somebody may have put it back to where it began.

    As far as git's own files tell: a branch that has moved on counts as having it.
    """
    tip = _tip(project_dir, record.branch)
    if tip is None or tip == record.commit:
        return tip is not None
    without_code = (
        record.started,
        _commit_checked_out(project_dir, besides=record.branch),
        _tip(project_dir, record.base),
    )
    return tip not in without_code


def check_start(project_dir: Path, base: str) -> None:
    """Raises UsageError where no branch can start, as far as git's own files tell: a dry run starts no process.

    Of bases they tell about HEAD: others may be any expression that git understands.
    """
    git_dir = _git_dir(project_dir)
    if git_dir is None:
        init = Hint.GIT_INIT.line(folder=project_dir)
        raise UsageError(f"{project_dir} is not in a git checkout: run `{init}` and commit something, or go to one")
    if base == "HEAD" and _is_unborn(git_dir):
        raise UsageError(no_commit_words(base, project_dir))


def _is_unborn(git_dir: Path) -> bool:
    """Whether HEAD is a branch without a commit. False where the files do not tell."""
    common_dir = _common_dir(git_dir)
    head = _head(git_dir)
    # A repository in the reftable format keeps its branches where only git can read them.
    is_readable = head.startswith("ref: ") and not (common_dir / "reftable").exists()
    return is_readable and _commit_of(common_dir, head.removeprefix("ref: ")) is None


def no_commit_words(base: str, project_dir: Path) -> str:
    """For people whose branches have nothing to start from."""
    return f"{base!r} names no commit in {project_dir}: commit something or set --base."


def _tip(project_dir: Path, branch: str) -> str | None:
    git_dir = _git_dir(project_dir)
    return None if git_dir is None else _commit_of(_common_dir(git_dir), f"refs/heads/{branch}")


def _commit_checked_out(project_dir: Path, besides: str) -> str | None:
    """Of the checkout, on a branch or not. None on the branch `besides`, which somebody works on then."""
    git_dir = _git_dir(project_dir)
    if git_dir is None or (head := _head(git_dir)) == f"ref: refs/heads/{besides}":
        return None
    return _commit_of(_common_dir(git_dir), head.removeprefix("ref: ")) if head.startswith("ref: ") else head


def _head(git_dir: Path) -> str:
    """`ref: ` and the name of a branch, or a commit; empty where it cannot be read."""
    try:
        return (git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _commit_of(common_dir: Path, ref: str) -> str | None:
    """What a branch points to; None when there is none."""
    try:
        return (common_dir / ref).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        pass
    try:
        packed = (common_dir / "packed-refs").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    named = (line.partition(" ") for line in packed.splitlines())
    return next((commit for commit, _, name in named if name == ref), None)


def branch_prefix(project_dir: Path) -> str:
    """What the branches of a project have before an item's id, so that no two projects of a repository share one.

    Empty for a project that is a whole repository, else made of its folder: `services/api` is `services--api--`.
    """
    top = _top_dir(project_dir.resolve())
    parts = project_dir.resolve().relative_to(top).parts if top else ()
    if not parts:
        return ""
    plain = "--".join(re.sub(r"[^a-zA-Z0-9_-]+", "-", part) for part in parts)[-_LONGEST_PREFIX:]
    is_same = plain.split("--") == list(parts)
    digest = "" if is_same else hashlib.sha256("/".join(parts).encode(errors="replace")).hexdigest()[:8] + "--"
    return f"{plain}--{digest}"


def _top_dir(project_dir: Path) -> Path | None:
    return next((path for path in (project_dir, *project_dir.parents) if (path / ".git").exists()), None)


def _git_dir(project_dir: Path) -> Path | None:
    """The git directory of the checkout; a linked worktree has one of its own."""
    top_dir = _top_dir(project_dir.resolve())
    if top_dir is None:
        return None
    git = top_dir / ".git"
    if git.is_dir():
        return git
    try:
        return top_dir / git.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
    except OSError:
        return None


def _common_dir(git_dir: Path) -> Path:
    """What all worktrees of a repository share."""
    try:
        return git_dir / (git_dir / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return git_dir
