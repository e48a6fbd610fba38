"""What the worker of an item is sent beside the address of its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """In its first message: not in its arguments, nor in an environment that its children would inherit."""

    password: str = field(default="", repr=False)
    fence: int = 0
    """The number of this attempt; a write with an older one is refused. 0 where the kernel keeps attempts apart."""
    project_dir: str = ""
    """Where the project is on the worker's machine: documents are kept by their way from there."""
    patience_seconds: float = 30.0
    """How long a node waits for a database that does not answer."""
