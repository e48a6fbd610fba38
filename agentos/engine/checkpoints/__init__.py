"""Where the state of an item is kept between nodes, and which store keeps it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from agentos.engine.checkpoints.protocol import CheckpointStore, ItemCheckpoint
from agentos.engine.checkpoints.sqlite import SET_ASIDE, SET_ASIDE_FORMAT, SqliteStore, scratch_checkpoint
from agentos.paths import checkpoints_dir, home_dir


def store_for(project_dir: Path) -> CheckpointStore:
    """The store of a project's checkpoints."""
    return SqliteStore(checkpoints_dir(project_dir))


def store_at(address: str) -> CheckpointStore:
    """The store that an address is from: a worker is told no more."""
    return SqliteStore(Path(address).parent)


def outlived(moment: datetime) -> list[Path]:
    """What was set aside before then, of all projects: nobody has wanted to look at it."""
    before = moment.astimezone(UTC).strftime(SET_ASIDE_FORMAT)
    found = home_dir().glob("checkpoints/*/*.db.*")
    return sorted(path for path in found if (named := SET_ASIDE.search(path.name)) and named[1] < before)


def scratch() -> ItemCheckpoint:
    """A checkpoint that nobody will resume from, in memory."""
    return scratch_checkpoint()
