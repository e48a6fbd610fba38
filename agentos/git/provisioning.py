"""Gives a fresh worktree the ignored configuration files it needs to run: copied or linked, never out of bounds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from agentos.errors import UsageError
from agentos.git.command import Git

_MAX_FILE_BYTES: Final = 10 * 1024 * 1024
_MAX_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class ProvidedFile:
    """A configuration file and what became of it. `problem` says why it was left out."""

    path: str
    problem: str | None = None


def provide_files(
    project_dir: Path, worktree_path: Path, worktree: Git, names: Sequence[str], *, link: bool = False
) -> tuple[ProvidedFile, ...]:
    """Copy (or link) ignored files of the user's checkout into a worktree; what is there already stays as it is.

    `names` are paths or globs inside the project: anything else is a UsageError. A file that git does not ignore is
    left out, since the next commit would publish it.
    """
    sources = list(dict.fromkeys(path for name in names for path in _matches(project_dir, name)))
    if len(sources) > _MAX_FILES:
        raise UsageError(f"{len(sources)} configuration files to copy, maximum {_MAX_FILES}: name them more narrowly")
    return tuple(_provide(project_dir, worktree_path, worktree, source, link) for source in sources)


def _matches(project_dir: Path, name: str) -> Iterator[PurePosixPath]:
    pure = PurePosixPath(name)
    if not name or pure.is_absolute() or ".." in pure.parts or ".git" in (part.lower() for part in pure.parts):
        raise UsageError(f"{name!r} is not a path inside the project: configuration files are named relative to it")
    if any(character in name for character in "*?["):
        found = sorted(path for path in project_dir.glob(name) if path.is_file())
        yield from (PurePosixPath(path.relative_to(project_dir).as_posix()) for path in found)
    else:
        yield pure


def _provide(project_dir: Path, worktree_path: Path, worktree: Git, path: PurePosixPath, link: bool) -> ProvidedFile:
    source, target = project_dir / path, worktree_path / path
    problem = _source_problem(project_dir, source) or _target_problem(worktree_path, target)
    if problem is None and os.path.lexists(target):
        return ProvidedFile(str(path))
    if problem is None and not worktree.says_yes("check-ignore", "--quiet", "--", str(path)):
        problem = "git does not ignore it, so it would be committed: add it to .gitignore"
    if problem is not None:
        return ProvidedFile(str(path), problem)
    target.parent.mkdir(parents=True, exist_ok=True)
    if link:
        target.symlink_to(source.resolve())
    else:
        _copy(source, target)
    return ProvidedFile(str(path))


def _source_problem(project_dir: Path, source: Path) -> str | None:
    if not source.is_file():
        return "there is no such file"
    if not source.resolve().is_relative_to(project_dir.resolve()):
        return "it is a link that leads out of the project"
    if source.stat().st_size > _MAX_FILE_BYTES:
        return f"it is larger than {_MAX_FILE_BYTES // 1024 // 1024} MB"
    return None


def _target_problem(worktree_path: Path, target: Path) -> str | None:
    if not target.parent.resolve().is_relative_to(worktree_path.resolve()):
        return "a link in the worktree leads out of it"
    return None


def _copy(source: Path, target: Path) -> None:
    """Through a temporary name: a crash leaves no half file that would count as present next time."""
    temporary_path = target.with_name(f".{target.name}.agentos-copy")
    shutil.copy2(source.resolve(), temporary_path)
    temporary_path.replace(target)
