"""A look at the database that a project's checkpoints are in, for `agentos doctor`. Changes nothing there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from agentos.database import Database, database_of
from agentos.engine.checkpoints.postgres_schema import SCHEMA, VERSION
from agentos.engine.checkpoints.postgres_session import Session
from agentos.errors import AgentosError

Said = tuple[Literal["ok", "warning", "error"], str, str]
_SERVER = (
    "SELECT current_setting('server_version'), coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), "
    "false), pg_is_in_recovery(), has_database_privilege(current_database(), 'CREATE')"
)


def try_database(project_dir: Path) -> Iterator[Said]:
    """What it is, and what a run would meet: level, words, and what to do."""
    try:
        database = database_of(project_dir)
    except AgentosError as error:
        yield "error", str(error), "Correct [checkpoints], or the variable."
        return
    if database is None:
        yield "ok", "one SQLite file per unfinished item", ""
        return
    with closing(Session(database, patience_seconds=0)) as session:
        try:
            version, is_encrypted, is_read_only, may_create = session.ask(_SERVER)
            schema = session.rows("SELECT version FROM meta")
        except AgentosError as error:
            yield "error", str(error), "Start the server, or correct checkpoints.url. Items stay where they are."
            return
    yield from _server(database, version, is_encrypted=is_encrypted)
    if is_read_only:
        yield "error", f"{database.name} is a standby and takes no writes", "Name the primary in checkpoints.url."
    elif schema:
        yield "ok", f"schema {SCHEMA}, version {VERSION}; project {database.project}", ""
    elif may_create:
        yield "ok", f"no schema {SCHEMA} yet, the first run makes it; project {database.project}", ""
    else:
        fix = f"Have the database's owner make it: CREATE SCHEMA {SCHEMA} AUTHORIZATION this user."
        yield "error", f"there is no schema {SCHEMA}, and this user may not make it", fix


def _server(database: Database, version: str, *, is_encrypted: bool) -> Iterator[Said]:
    words = f"PostgreSQL {version} at {database.name}"
    if is_encrypted:
        yield "ok", f"{words}, over TLS", ""
    elif database.is_on_this_machine:
        yield "ok", f"{words}, on this machine", ""
    else:
        fix = "Turn TLS on in the server, and add ?sslmode=verify-full to checkpoints.url."
        yield "warning", f"{words}, not encrypted: states and the password exchange can be read in transit", fix
