"""Checkpoints in SQLite: one database per item, with the engine's own tables beside LangGraph's."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.protocol import CheckpointUnusable, CheckpointUnwritable, ItemRef, NotAsking, Standing
from agentos.files import PRIVATE_FILE_MODE
from agentos.keys.redaction import MarkRedactor, Masking

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from agentos.engine.checkpoints.sqlite_saver import ItemSaver

_BETWEEN = "_workflow_"
_RECORD = ".peek.json"
_LOGS = ("-wal", "-journal")
"""What SQLite reads beside a database."""
SET_ASIDE_FORMAT = "%Y%m%d-%H%M%S"
SET_ASIDE = re.compile(r"\.db\.[a-z]+-(\d{8}-\d{6})-\d+(-wal|-journal)?$")
"""The end of the name of what was set aside, with the time when."""
_ROOM_BYTES = 1 << 20
"""Less room than this is a full disk, whatever still fits."""


class WriteRecord(Protocol):
    def __call__(self, path: Path, text: str, *, is_lasting: bool) -> None: ...


class SqliteStore:
    """A folder of databases, `{workflow}_workflow_{item}.db`, each with its record beside it."""

    def __init__(self, directory: Path, write_record: WriteRecord = record.write) -> None:
        self._directory = directory
        self._write_record = write_record

    def address(self, ref: ItemRef) -> str:
        return str(self._path(ref))

    def items(self) -> list[ItemRef]:
        names = sorted(path.stem.partition(_BETWEEN) for path in self._directory.glob(f"*{_BETWEEN}*.db"))
        return [ItemRef(workflow, item_id) for workflow, _, item_id in names]

    def exists(self, ref: ItemRef) -> bool:
        return self._path(ref).exists()

    def peek(self, ref: ItemRef) -> Standing | None:
        if not self._path(ref).is_file():
            return None
        return record.read(self._path(ref, _RECORD)) or Standing()

    def open(self, ref: ItemRef) -> SqliteCheckpoint:
        opened = self._connect(ref)
        try:
            opened.read_saved_state()
        except BaseException:
            opened.close()
            raise
        return opened

    def answer(self, ref: ItemRef, questions: Sequence[Any], answer: Any, edit: dict[str, Any] | None = None) -> None:
        if not self.exists(ref):
            raise NotAsking("the item has ended")
        with closing(self._connect(ref)) as opened:
            if opened.standing.questions != list(questions):
                raise NotAsking("the item asks something else, or nothing")
            opened.take_answer(answer, edit)

    def remove(self, ref: ItemRef) -> None:
        """The database first: without it the other files mean nothing."""
        for suffix in ("", *_LOGS, "-shm", _RECORD):
            self._path(ref, suffix).unlink(missing_ok=True)

    def keep_aside(self, ref: ItemRef, kind: str) -> str:
        """The database last: a log without it would be taken for the next one's."""
        kept = self._path(ref, f".{kind}-{time.strftime(SET_ASIDE_FORMAT, time.gmtime())}-{os.getpid()}")
        for suffix in ("-shm", _RECORD):
            self._path(ref, suffix).unlink(missing_ok=True)
        for suffix in (*_LOGS, ""):
            if self._path(ref, suffix).exists():
                self._path(ref, suffix).rename(f"{kept}{suffix}")
        return kept.name

    def can_keep(self, ref: ItemRef) -> bool:
        import tempfile  # noqa: PLC0415  Nearly no run comes here.

        try:
            with tempfile.TemporaryFile(dir=self._path(ref).parent) as probe:
                probe.write(bytes(_ROOM_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError:
            return False
        return True

    def output_paths(self, ref: ItemRef) -> list[str]:
        try:
            # Without a log there is nothing beside the database to read, and nothing must appear there.
            mode = "mode=ro" if self._path(ref, "-wal").exists() else "immutable=1"
            uri = f"{self._path(ref).absolute().as_uri()}?{mode}"
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
                return [str(row[0]) for row in connection.execute("SELECT path FROM agentos_outputs")]
        except (sqlite3.Error, UnicodeDecodeError):
            return []

    def _path(self, ref: ItemRef, suffix: str = "") -> Path:
        return self._directory / f"{ref.workflow}{_BETWEEN}{ref.item_id}.db{suffix}"

    def _connect(self, ref: ItemRef) -> SqliteCheckpoint:
        path, record_path = self._path(ref), self._path(ref, _RECORD)
        with damage_is_told(), unwritable_is_a_fault():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                # A kill in the middle of `remove` leaves what is not the new database's.
                self.remove(ref)
            elif not path.is_file():
                raise CheckpointUnusable("damaged", "not a regular file")
            # SQLite gives its side files the mode of the database.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE))
            connection = sqlite3.connect(path, check_same_thread=False, timeout=10)
            try:
                opened = SqliteCheckpoint(connection, ref.item_id, partial(self._write_record, record_path))
                _refuse_loss(opened.standing, record.read(record_path))
            except BaseException:
                connection.close()
                raise
            return opened


class Show(Protocol):
    def __call__(self, text: str, *, is_lasting: bool) -> None: ...


class SqliteCheckpoint:
    """An item's open database. The row `standing` says how far it is; `show` puts a copy where `peek` finds it."""

    def __init__(self, connection: sqlite3.Connection, item_id: str, show: Show) -> None:
        self.connection = connection
        self._item_id = item_id
        self._show = show
        # Transactions of one connection must not mix, whichever threads they come from.
        self._lock = threading.Lock()
        self.redactor: Masking = MarkRedactor()
        self.has_steps = False
        _make_ready(connection)
        self.standing = self._next = self._stored_standing()

    @property
    def config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self._item_id}}

    @cached_property
    def saver(self) -> ItemSaver:
        from agentos.engine.checkpoints.sqlite_saver import ItemSaver  # noqa: PLC0415  Loads LangGraph.

        return ItemSaver(self)

    def read_saved_state(self) -> None:
        """Read what a resume would. Raises CheckpointUnusable when it is not what was saved."""
        try:
            saved = self.saver.get_tuple(self.config)
        except CheckpointUnwritable:
            raise
        except Exception as error:
            # The serializer's own errors, of many kinds, all mean that the bytes are not what it wrote.
            raise CheckpointUnusable("damaged", f"saved state cannot be read: {error}") from error
        self.has_steps = saved is not None
        if self.standing.input_hash is not None:
            # A kill between a commit and its record has left the record behind.
            self._publish(self.standing)

    def name_task(self, task_id: str, node: str) -> None:
        self.saver.running[task_id] = node

    def begin(self, input_hash: str) -> None:
        self._move_to(Standing(input_hash=input_hash))

    def park(self, questions: list[Any], interrupt_ids: list[str] | None = None) -> None:
        """Synced: its record will be, and must not outlive it."""
        asking = replace(self.standing, questions=questions, interrupt_ids=interrupt_ids, answer=None, edit=None)
        self._move_to(asking, is_synced=True)

    def take_answer(self, answer: Any, edit: dict[str, Any] | None) -> None:
        """On the disk itself when this returns."""
        self._move_to(replace(self.standing, answer=answer, edit=edit), is_synced=True)

    def forget_used_answers(self) -> None:
        with self._lock, unwritable_is_a_fault(), self.connection as connection:
            if _has_table(connection, "agentos_resumes"):
                connection.execute("DELETE FROM writes WHERE channel = '__resume__'")
                connection.execute("INSERT INTO writes SELECT * FROM agentos_resumes")

    @contextmanager
    def editing(self) -> Iterator[None]:
        self.saver.is_edited_by_hand = True
        try:
            yield
        finally:
            self.saver.is_edited_by_hand = False

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
        if self._next.questions not in (None, self.standing.questions):
            _keep_resumes(cursor)

    def _move_to(self, standing: Standing, *, is_synced: bool = False) -> None:
        with self.moving(lambda _: standing, is_synced=is_synced), self.connection:
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


def _refuse_loss(standing: Standing, shown: Standing | None) -> None:
    """The record is written after the commit that it tells of: it is never ahead, unless commits are gone.

    SQLite itself says nothing when its log is missing or ends in damage: it takes what is left for all there is.
    """
    if shown is not None and shown.steps > standing.steps:
        lost = f"{shown.steps - standing.steps} of {shown.steps} steps are lost"
        raise CheckpointUnusable("damaged", f"its write-ahead log is missing or damaged: {lost}")


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
        raise CheckpointUnwritable(f"cannot write the checkpoint: {error.strerror or error}") from error


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
