"""Where the state of an item is kept between nodes, and which store keeps it."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.database import Database, database_at, database_of, is_database
from agentos.engine.checkpoints.access import StoreAccess
from agentos.engine.checkpoints.protocol import (
    SET_ASIDE_FORMAT,
    CheckpointStore,
    CheckpointUnwritable,
    ItemCheckpoint,
)
from agentos.engine.checkpoints.sqlite import SET_ASIDE, SqliteStore
from agentos.paths import checkpoints_dir, home_dir

if TYPE_CHECKING:
    from agentos.engine.checkpoints.postgres_session import Session, SessionProbe

_COMMAND_PATIENCE_SECONDS = 5.0
_sessions: dict[Database, Session] = {}


def store_for(project_dir: Path) -> CheckpointStore:
    """The store of a project's checkpoints. What it writes carries the fences of the claims this process holds."""
    database = database_of(project_dir)
    if database is None:
        return local_store(project_dir)
    from agentos.engine.checkpoints.postgres import PostgresStore  # noqa: PLC0415  Few have a database.

    return PostgresStore(session_of(database), project_dir)


def local_store(project_dir: Path) -> CheckpointStore:
    """The files of a project's checkpoints, wherever its items are kept now."""
    return SqliteStore(checkpoints_dir(project_dir))


def store_at(
    address: str, access: StoreAccess | None = None, on_wait: Callable[[str], None] = lambda _text: None
) -> CheckpointStore:
    """The store that an item's address is from, for its worker, on whatever machine that is.

    `on_wait` is told when a database does not answer and the item waits for it.
    """
    if not is_database(address):
        return SqliteStore(Path(address).parent)
    from agentos.engine.checkpoints.postgres import PostgresStore  # noqa: PLC0415
    from agentos.engine.checkpoints.postgres_session import Session  # noqa: PLC0415

    given = access or StoreAccess()
    session = Session(database_at(address, given.password, given.patience_seconds), on_wait=on_wait)
    return PostgresStore(session, Path(given.project_dir or "."), given.fence)


def access_of(project_dir: Path) -> StoreAccess:
    """What the workers of a project's items are sent, but for their fence. Connects to a database if there is one."""
    database = database_of(project_dir)
    if database is None:
        return StoreAccess(project_dir=str(project_dir))
    return StoreAccess(
        password=session_of(database).password(),
        project_dir=str(project_dir),
        patience_seconds=database.patience_seconds,
    )


def preload(address: str) -> None:
    """Load what a worker with such an address needs: once, for all that are forked."""
    if is_database(address):
        from agentos.engine.checkpoints import postgres, postgres_saver  # noqa: F401, PLC0415


def session_of(database: Database) -> Session:
    """The connection of this command to the database of its project: one, however many ask."""
    from agentos.engine.checkpoints.postgres_session import Session  # noqa: PLC0415

    if database not in _sessions:
        if not _sessions:
            atexit.register(close_sessions)
        _sessions[database] = Session(database, patience_seconds=_COMMAND_PATIENCE_SECONDS)
    return _sessions[database]


@contextmanager
def waiting_as_a_run(
    project_dir: Path, *, on_wait: Callable[[str], None], is_hurried: Callable[[], bool]
) -> Iterator[None]:
    """Inside, a database that does not answer is waited for as long as the settings say, unless somebody hurries."""
    database = database_of(project_dir)
    if database is None:
        yield
        return
    with session_of(database).waiting(database.patience_seconds, on_wait, is_hurried):
        yield


def probe_of(
    project_dir: Path, *, on_wait: Callable[[str], None], is_hurried: Callable[[], bool]
) -> SessionProbe | None:
    """Tells a run whether its database answers, on a connection of its own; None where there is no database.

    `on_wait` and `is_hurried` are called in whatever thread asks.
    """
    database = database_of(project_dir)
    if database is None:
        return None
    from agentos.engine.checkpoints.postgres_session import Session, SessionProbe  # noqa: PLC0415

    return SessionProbe(Session(database, on_wait=on_wait, is_hurried=is_hurried), session_of(database))


def close_sessions() -> None:
    while _sessions:
        _sessions.popitem()[1].close()


def outlived(moment: datetime) -> list[Path]:
    """What was set aside before then, of all projects: nobody has wanted to look at it."""
    before = moment.astimezone(UTC).strftime(SET_ASIDE_FORMAT)
    found = home_dir().glob("checkpoints/*/*.db.*")
    return sorted(path for path in found if (named := SET_ASIDE.search(path.name)) and named[1] < before)


def forget_set_aside(project_dir: Path, before: datetime) -> None:
    """In a project's database, if it has one: what is in files is `outlived`."""
    database = database_of(project_dir)
    if database is None:
        return
    from agentos.engine.checkpoints.postgres import PostgresStore  # noqa: PLC0415

    # What cannot be removed now is removed after the next run.
    with suppress(CheckpointUnwritable):
        PostgresStore(session_of(database), project_dir).forget_set_aside(before)


def scratch() -> ItemCheckpoint:
    """A checkpoint that nobody will resume from, in memory."""
    from agentos.engine.checkpoints.sqlite_checkpoint import scratch_checkpoint  # noqa: PLC0415  As the store.

    return scratch_checkpoint()
