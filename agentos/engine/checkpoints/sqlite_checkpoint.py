"""An item's open database: the engine's own tables beside LangGraph's."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.opened import OpenedCheckpoint
from agentos.engine.checkpoints.protocol import CheckpointUnusable, CheckpointUnwritable, Standing

if TYPE_CHECKING:
    from agentos.engine.checkpoints.sqlite_saver import ItemSaver


class Show(Protocol):
    def __call__(self, text: str, *, is_lasting: bool) -> None: ...


class SqliteCheckpoint(OpenedCheckpoint):
    """An item's open database. The row `standing` says how far it is; `show` puts a copy where `peek` finds it."""

    def __init__(self, connection: sqlite3.Connection, item_id: str, show: Show) -> None:
        super().__init__(item_id)
        self.connection = connection
        self._show = show
        # Transactions of one connection must not mix, whichever threads they come from.
        self._lock = threading.Lock()
        _make_ready(connection)
        self.standing = self._next = self._stored_standing()

    @cached_property
    def saver(self) -> ItemSaver:
        from agentos.engine.checkpoints.sqlite_saver import ItemSaver  # noqa: PLC0415  Loads LangGraph.

        return ItemSaver(self)

    def read_saved_state(self) -> None:
        super().read_saved_state()
        if self.standing.input_hash is not None:
            # A kill between a commit and its record has left the record behind.
            self._publish(self.standing)

    def forget_used_answers(self) -> None:
        with self._lock, unwritable_is_a_fault(), self.connection as connection:
            if _has_table(connection, "agentos_resumes"):
                connection.execute("DELETE FROM writes WHERE channel = '__resume__'")
                connection.execute("INSERT INTO writes SELECT * FROM agentos_resumes")

    def get(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM agentos_item WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def put(self, name: str, value: str) -> None:
        with self._lock, unwritable_is_a_fault(), self.connection:
            self._put(self.connection.cursor(), name, value)

    def keep_output(self, path: Path, content: bytes) -> None:
        kept = self.redactor.redact_text(str(path)), self.redactor.redact(content)
        with self._lock, unwritable_is_a_fault(), self.connection:
            self.connection.execute("INSERT OR REPLACE INTO agentos_outputs VALUES (?, ?)", kept)

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        yield from self.connection.execute("SELECT path, content FROM agentos_outputs ORDER BY path")

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def moving(self, after: Callable[[Standing], Standing], *, is_synced: bool = False) -> Iterator[None]:
        """Around one commit, which makes `note_standing` a part of itself. Shown only after it: never ahead of it."""
        with self._lock, unwritable_is_a_fault():
            before, self._next = self.standing, after(self.standing)
            with synced(self.connection) if is_synced else nullcontext():
                yield
            self.standing = self._next
            if self.standing != before:
                self._publish(before)

    def note_standing(self, cursor: sqlite3.Cursor) -> None:
        if self._next != self.standing:
            self._put(cursor, "standing", record.to_text(self._next))
        if self._next.asks_anew(self.standing):
            _keep_resumes(cursor)

    def _stand(self, after: Callable[[Standing], Standing], *, is_synced: bool = False) -> None:
        """What a person is asked and answers is synced: its record will be, and must not outlive it."""
        with self.moving(after, is_synced=is_synced), self.connection:
            self.note_standing(self.connection.cursor())

    def _publish(self, before: Standing) -> None:
        has_to_last = before.questions is not None or self.standing.questions is not None
        self._show(self.redactor.redact_text(record.to_text(self.standing)), is_lasting=has_to_last)

    def _put(self, cursor: sqlite3.Cursor, name: str, value: str) -> None:
        cursor.execute("INSERT OR REPLACE INTO agentos_item VALUES (?, ?)", (name, self.redactor.redact_text(value)))

    def _stored_standing(self) -> Standing:
        with damage_is_told():
            text = self.get("standing")
            is_new = text is None and not self.connection.execute("SELECT 1 FROM agentos_item LIMIT 1").fetchone()
        standing = Standing() if is_new else record.from_text(text or "")
        if standing is None:
            raise CheckpointUnusable("outdated", "made by another version of AgentOS")
        return standing


def _keep_resumes(cursor: sqlite3.Cursor) -> None:
    """Which answers LangGraph has been given so far, for `forget_used_answers`."""
    if _has_table(cursor, "writes"):
        cursor.execute("DROP TABLE IF EXISTS agentos_resumes")
        cursor.execute("CREATE TABLE agentos_resumes AS SELECT * FROM writes WHERE channel = '__resume__'")


def _has_table(database: sqlite3.Connection | sqlite3.Cursor, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return database.execute(query, (name,)).fetchone() is not None


def scratch_checkpoint() -> SqliteCheckpoint:
    """In memory, with nothing to show."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    return SqliteCheckpoint(connection, "scratch", lambda _text, *, is_lasting: None)


def _make_ready(connection: sqlite3.Connection) -> None:
    """Check the file and make our tables. Commits reach the log at once, and the disk with the next step's."""
    connection.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("database disk image is malformed")
    connection.executescript(
        # Written with every step: without row ids it is one page and not two.
        "CREATE TABLE IF NOT EXISTS agentos_item (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS agentos_outputs (path TEXT PRIMARY KEY, content BLOB NOT NULL);"
    )


@contextmanager
def unwritable_is_a_fault() -> Iterator[None]:
    """Tell a full disk or a read-only folder from a damaged file and from a user's own database errors."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise CheckpointUnwritable(f"cannot write the checkpoint: {error}") from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise CheckpointUnwritable(f"cannot write the checkpoint{where}: {error.strerror or error}") from error


@contextmanager
def damage_is_told() -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise CheckpointUnusable("damaged", str(error)) from error


@contextmanager
def synced(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits inside are on the disk itself, with all that came before them: they survive a power cut."""
    connection.execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous=NORMAL")
