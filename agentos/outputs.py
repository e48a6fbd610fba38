"""Documents an item writes: `outputs.write(path, text)` in a node. They appear whole, when the item succeeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_keep: Callable[[Path, bytes], None] | None = None


def write(path: str | Path, content: str | bytes) -> None:
    """Keep a document with the item's checkpoint. The coordinator renames it into place when the item succeeds.

    Outside a run it is written at once.
    """
    target = Path(path).absolute()
    data = content.encode() if isinstance(content, str) else content
    if _keep is not None:
        _keep(target, data)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def set_keeper(keep: Callable[[Path, bytes], None] | None) -> None:
    """The worker's door: where documents wait for the item's end."""
    global _keep
    _keep = keep
