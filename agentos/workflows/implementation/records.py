"""What is known about implemented designs without asking git: a record an item, and the branches."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from agentos.paths import home_dir, project_key
from agentos.workflows.parallel.input_sanitizer import sanitize_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Implemented:
    """A design that became code."""

    document_hash: str
    branch: str
    commit: str
    base: str


def record_path(project_dir: Path, item_id: str) -> Path:
    return home_dir() / "implemented" / project_key(project_dir) / f"{sanitize_identifier(item_id)}.json"


def as_text(record: Implemented) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"


def read_record(project_dir: Path, item_id: str) -> Implemented | None:
    """The record of an item, None when there is none or it cannot be read."""
    try:
        return Implemented(**json.loads(record_path(project_dir, item_id).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def has_branch(project_dir: Path, branch: str) -> bool:
    """Whether the repository has a branch, read from git's own files: a dry run starts no process."""
    common_dir = _common_dir(project_dir)
    if common_dir is None:
        return False
    if (common_dir / "refs" / "heads" / branch).is_file():
        return True
    try:
        packed = (common_dir / "packed-refs").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(line.endswith(f" refs/heads/{branch}") for line in packed.splitlines())


def _common_dir(project_dir: Path) -> Path | None:
    git = project_dir / ".git"
    if git.is_dir():
        return git
    try:
        git_dir = project_dir / git.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
        shared = git_dir / "commondir"
        return git_dir / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git_dir
    except OSError:
        return None
