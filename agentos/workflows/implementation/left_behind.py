"""What a test run leaves in its checkout that decides about code: modules, and other versions of what tests read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from agentos.files import files_below

_IMPORTABLE: Final = (".py", ".pyc", ".so")
Stamps: TypeAlias = Mapping[str, tuple[int, int]]
"""Size and age of files, by path."""


def stamps(root: Path) -> Stamps:
    """Of every file, what Python keeps for itself and hidden folders apart."""
    found = {}
    for entry in files_below(root, lambda name: name != "__pycache__" and not name.startswith(".")):
        with contextlib.suppress(OSError):
            stamp = entry.stat(follow_symlinks=False)
            found[entry.path[len(str(root)) + 1 :]] = (stamp.st_size, stamp.st_mtime_ns)
    return found


def written_between(before: Stamps, after: Stamps, is_test: Callable[[str], bool]) -> tuple[str, ...]:
    """Modules that are new or other ones, and files of tests that are (pure). A new file of data is neither."""

    def decides(path: str) -> bool:
        return path.endswith(_IMPORTABLE) or (path in before and is_test(path))

    return tuple(sorted(path for path, stamp in after.items() if before.get(path) != stamp and decides(path)))
