"""Documents an item writes: `outputs.write(path, text)` in a node. They appear whole, when the item succeeds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from agentos.errors import AgentosError

_keep: Callable[[Path, bytes], None] | None = None


class UnusableTarget(AgentosError):
    """A document cannot be written there."""


def write(path: str | Path, content: str | bytes) -> None:
    """Keep a document with the item's checkpoint. The coordinator renames it into place when the item succeeds.

    Outside a run it is written at once. Raises UnusableTarget for a path that no document can have.
    """
    if "\0" in str(path):
        raise UnusableTarget(f"{str(path)!r} is not a path for a document: it contains a null character")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UnusableTarget(
            f"{str(path)!r} is not a path for a document: it contains bytes that are no text"
        ) from None
    # Through links, as every program writes: a document does not replace the link to it.
    target = Path(os.path.realpath(path))
    refuse_special(target)
    data = content.encode() if isinstance(content, str) else content
    if _keep is not None:
        _keep(target, data)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def refuse_special(target: Path) -> None:
    """Raises UnusableTarget unless a document may take this place: nothing is there, or a regular file."""
    try:
        mode = target.lstat().st_mode
    except OSError:
        return  # Whoever writes it is told what else is wrong.
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise UnusableTarget(f"cannot write {target}: it is {kind}; choose another path")


def set_keeper(keep: Callable[[Path, bytes], None] | None) -> None:
    """The worker's door: where documents wait for the item's end."""
    global _keep
    _keep = keep
