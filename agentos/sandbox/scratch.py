"""Folders for one command, that go with it: at once, or after a kill with the next one that is made."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentos.files import hold_dir, remove_left, remove_tree

PREFIXES: Final = ("agentos-tests-", "agentos-suite-", "agentos-sandbox-", "agentos-probe-")


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """An empty folder. What killed processes left of such folders is removed on the way."""
    sweep(Path(tempfile.gettempdir()), now=time.time())
    path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        descriptor = hold_dir(path)
        try:
            yield path
        finally:
            os.close(descriptor)
    finally:
        remove_tree(path)


def sweep(directory: Path, *, now: float) -> None:
    """Remove folders of ours whose process is dead."""
    for prefix in PREFIXES:
        remove_left(directory.glob(f"{prefix}*"), now)
