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
    git_dir = _git_dir(project_dir)
    return git_dir is not None and _has_ref(_common_dir(git_dir), f"refs/heads/{branch}")


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
    try:
        head = (git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return False
    # A repository in the reftable format keeps its branches where only git can read them.
    is_readable = head.startswith("ref: ") and not (common_dir / "reftable").exists()
    return is_readable and not _has_ref(common_dir, head.removeprefix("ref: "))


def no_commit_words(base: str, project_dir: Path) -> str:
    """For people whose branches have nothing to start from."""
    return f"{base!r} names no commit in {project_dir}: commit something or set --base."


def _has_ref(common_dir: Path, name: str) -> bool:
    if (common_dir / name).is_file():
        return True
    try:
        packed = (common_dir / "packed-refs").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(line.endswith(f" {name}") for line in packed.splitlines())


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
