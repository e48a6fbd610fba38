"""Stores under test, each with what the world may do to it."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Protocol

from checkpoint_graphs import REF

from agentos.database import Database, database_of
from agentos.engine.checkpoints.protocol import CheckpointStore
from agentos.engine.checkpoints.sqlite import SqliteStore


class Bench(Protocol):
    store: CheckpointStore

    def all_kept(self) -> dict[str, bytes]:
        """Everything that is kept of the project's items, by names that mean something."""

    def damage(self) -> None:
        """What was saved of the item is no longer what was written."""

    def make_outdated(self) -> None:
        """As another version of AgentOS would have left it."""

    def set_aside(self) -> list[str]:
        """By the names that `keep_aside` gives."""

    def break_it(self) -> None:
        """Nothing can be written any more."""


class SqliteBench:
    def __init__(self, root: Path) -> None:
        self.folder = root / "checkpoints"
        self.store: CheckpointStore = SqliteStore(self.folder)
        self._path = Path(self.store.address(REF))

    def all_kept(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob("*")}

    def damage(self) -> None:
        self._path.write_bytes(b"this is not a database at all, but long enough to look like one" * 100)

    def make_outdated(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("UPDATE agentos_item SET value = '{}' WHERE name = 'standing'")

    def set_aside(self) -> list[str]:
        return [path.name for path in self.folder.glob("*.db.*-*") if "peek" not in path.name]

    def break_it(self) -> None:
        self.folder.rename(self.folder.with_name("elsewhere"))


class PostgresBench:
    """A project of its own in the one database."""

    def __init__(self, root: Path, url: str) -> None:
        from agentos.engine.checkpoints.postgres import PostgresStore
        from agentos.engine.checkpoints.postgres_session import Session

        self.project_dir = root
        self.database = database_named(url, root)
        self._session = Session(self.database, patience_seconds=1)
        self.store: CheckpointStore = PostgresStore(self._session, root)

    def close(self) -> None:
        self._session.close()

    def all_kept(self) -> dict[str, bytes]:
        if not self._session.rows("SELECT 1 WHERE to_regclass('items') IS NOT NULL"):
            return {}
        own = f"SELECT id FROM items WHERE project = '{self.database.project}'"
        kept = {
            "items": f"SELECT t::text FROM items t WHERE project = '{self.database.project}'",
            "facts": f"SELECT t::text || encode(value, 'escape') FROM facts t WHERE item_id IN ({own})",
            "outputs": f"SELECT t::text || encode(content, 'escape') FROM outputs t WHERE item_id IN ({own})",
        }
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "resumes"):
            blob = "" if table == "checkpoints" else " || encode(blob, 'escape')"
            kept[table] = f"SELECT t::text{blob} FROM {table} t WHERE thread_id IN (SELECT id::text FROM ({own}) o)"
        found = {name: "\n".join(sorted(row[0] for row in self._session.rows(query))) for name, query in kept.items()}
        return {name: text.encode() for name, text in found.items() if text}

    def damage(self) -> None:
        own = f"SELECT id::text FROM items WHERE project = '{self.database.project}'"
        self._session.change(f"UPDATE checkpoint_blobs SET blob = '\\xc1' WHERE thread_id IN ({own})")

    def make_outdated(self) -> None:
        self._session.change("UPDATE items SET standing = '{}' WHERE project = %s", (self.database.project,))

    def set_aside(self) -> list[str]:
        query = "SELECT workflow || '/' || item || ' ' || aside FROM items WHERE project = %s AND aside <> ''"
        return [row[0] for row in self._session.rows(query, (self.database.project,))]

    def break_it(self) -> None:
        self._session.change("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")


def database_named(url: str, project_dir: Path) -> Database:
    """The database as settings would name it, with a new project in it."""
    project = f"test-{uuid.uuid4().hex}"
    found = database_of(project_dir, {"AGENTOS_CHECKPOINTS__URL": url, "AGENTOS_CHECKPOINTS__PROJECT": project})
    assert found is not None
    return found
