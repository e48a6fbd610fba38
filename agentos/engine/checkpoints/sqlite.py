"""Checkpoints in SQLite: a folder with one database per item."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.protocol import (
    CheckpointUnusable,
    ItemRef,
    NotAsking,
    Standing,
    aside_name,
)
from agentos.files import PRIVATE_FILE_MODE

if TYPE_CHECKING:
    from agentos.engine.checkpoints.sqlite_checkpoint import SqliteCheckpoint

_BETWEEN = "_workflow_"
_RECORD = ".peek.json"
_LOGS = ("-wal", "-journal")
"""What SQLite reads beside a database."""
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
                raise NotAsking("the item asks a different question, or none")
            opened.take_answer(answer, edit)

    def remove(self, ref: ItemRef) -> None:
        """The database first: without it the other files mean nothing."""
        for suffix in ("", *_LOGS, "-shm", _RECORD):
            self._path(ref, suffix).unlink(missing_ok=True)

    def keep_aside(self, ref: ItemRef, kind: str) -> str:
        """The database last: a log without it would be taken for the next one's."""
        kept = self._path(ref, f".{aside_name(kind)}")
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
        import sqlite3  # noqa: PLC0415  Most runs have no such item.

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
        import sqlite3  # noqa: PLC0415  Workers open databases; who plans or coordinates only looks at records.

        from agentos.engine.checkpoints.sqlite_checkpoint import (  # noqa: PLC0415
            SqliteCheckpoint,
            damage_is_told,
            unwritable_is_a_fault,
        )

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


def _refuse_loss(standing: Standing, shown: Standing | None) -> None:
    """The record is written after the commit that it tells of: it is never ahead, unless commits are gone.

    SQLite itself says nothing when its log is missing or ends in damage: it takes what is left for all there is.
    """
    if shown is not None and shown.steps > standing.steps:
        lost = f"{shown.steps - standing.steps} of {shown.steps} steps are lost"
        raise CheckpointUnusable("damaged", f"its write-ahead log is missing or damaged: {lost}")
