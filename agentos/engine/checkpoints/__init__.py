"""Where the state of an item is kept between nodes, and which store keeps it."""

from __future__ import annotations

from pathlib import Path

from agentos.engine.checkpoints.protocol import CheckpointStore, ItemCheckpoint
from agentos.engine.checkpoints.sqlite import SqliteStore, scratch_checkpoint
from agentos.paths import checkpoints_dir


def store_for(project_dir: Path) -> CheckpointStore:
    """The store of a project's checkpoints."""
    return SqliteStore(checkpoints_dir(project_dir))


def store_at(address: str) -> CheckpointStore:
    """The store that an address is from: a worker is told no more."""
    return SqliteStore(Path(address).parent)


def scratch() -> ItemCheckpoint:
    """A checkpoint that nobody will resume from, in memory."""
    return scratch_checkpoint()
