"""The small view of a repository that checks need: does a path exist, and what is there to suggest instead."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_IGNORED_FOLDERS = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".tox"})
_MOST_PATHS = 20_000


class KnownPaths(Protocol):
    """Paths are relative, with forward slashes."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def paths(self) -> Iterable[str]:
        """The files and folders there are, for suggestions."""
        ...


class PathSet:
    """A repository given as a list of files; their folders exist as well."""

    def __init__(self, files: Iterable[str]) -> None:
        names = set(files)
        self._paths = names | {str(parent) for name in names for parent in PurePosixPath(name).parents}

    def exists(self, path: str) -> bool:
        return str(PurePosixPath(path)) in self._paths

    def paths(self) -> Iterable[str]:
        return sorted(self._paths - {"."})


class FolderPaths:
    """A repository in a folder on disk. Tool folders such as `.git` and `node_modules` are never suggested."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, path: str) -> bool:
        if unsafe_reason(path) is not None:
            return False
        try:
            return (self._root / path).exists()
        except OSError:
            return False

    def paths(self) -> Iterable[str]:
        return self._paths

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        found: list[str] = []
        for path in self._walk():
            found.append(path)
            if len(found) >= _MOST_PATHS:
                break
        return tuple(found)

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root):
            folders[:] = sorted(set(folders) - _IGNORED_FOLDERS)
            base = Path(folder).relative_to(self._root)
            yield from ((base / name).as_posix() for name in (*folders, *sorted(files)))


def unsafe_reason(path: str) -> str | None:
    """Why a path cannot be one inside the repository, or None when it can."""
    if not path.strip():
        return "it is empty"
    if _CONTROL.search(path):
        return "it holds a control character"
    if _SCHEME.match(path):
        return "it is an address"
    if _DRIVE.match(path):
        return "it names a drive"
    if "\\" in path:
        return "it has backslashes"
    if path.startswith("/"):
        return "it is absolute"
    if path.startswith("~"):
        return "it is in a home folder"
    parts = PurePosixPath(path).parts
    if ".." in parts:
        return "it climbs out with `..`"
    return "it is inside `.git`" if ".git" in parts else None


def suggestion(path: str, repository: KnownPaths, *, folders_only: bool = False) -> str | None:
    """A path of the repository that was probably meant, or None."""
    known = [name for name in repository.paths() if not folders_only or "." not in PurePosixPath(name).name]
    wanted = PurePosixPath(path)
    same_name = [name for name in known if PurePosixPath(name).name == wanted.name]
    close = difflib.get_close_matches(str(wanted), same_name, n=1, cutoff=0.3)
    if close:
        return close[0]
    siblings = [name for name in known if PurePosixPath(name).parent == wanted.parent]
    alike = [name for name in known if abs(len(name) - len(path)) <= 12 and name[:1] == path[:1]]
    matches = difflib.get_close_matches(str(wanted), [*siblings, *alike[:2000]], n=1, cutoff=0.8)
    return matches[0] if matches else None
