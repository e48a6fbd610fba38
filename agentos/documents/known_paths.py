"""The small view of a repository that checks need: does a path exist, and what is there to suggest instead."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_IGNORED_FOLDERS = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".tox"})
_MOST_PATHS = 20_000


class FolderPaths:
    """A repository in a folder on disk. Paths are relative, with forward slashes.

    Tool folders such as `.git` and `node_modules` are never suggested.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        if unsafe_reason(path) is not None:
            return False
        try:
            return (self._root / path).exists()
        except OSError:
            return False

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files and folders there are, for suggestions."""
        return tuple(islice(self._walk(), _MOST_PATHS))

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


def suggestion(path: str, repository: FolderPaths, *, folders_only: bool = False) -> str | None:
    """A path of the repository that was probably meant, or None."""
    known = [name for name in repository.paths if not folders_only or "." not in PurePosixPath(name).name]
    wanted = PurePosixPath(path)
    same_name = [name for name in known if PurePosixPath(name).name == wanted.name]
    close = difflib.get_close_matches(str(wanted), same_name, n=1, cutoff=0.3)
    if close:
        return close[0]
    siblings = [name for name in known if PurePosixPath(name).parent == wanted.parent]
    alike = [name for name in known if abs(len(name) - len(path)) <= 12 and name[:1] == path[:1]]
    matches = difflib.get_close_matches(str(wanted), [*siblings, *alike[:2000]], n=1, cutoff=0.8)
    return matches[0] if matches else None
