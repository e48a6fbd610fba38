"""The store of a graph that has none of its own: one SQLite file for all its items, opened when it is used."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, Op, PutOp, Result

from agentos.engine.store_index import UsableIndex
from agentos.engine.vector_connection import VectorConnection
from agentos.errors import UsageError
from agentos.files import lock_of, locked

_BUSY_SECONDS = 30.0
"""How long a write waits for those of other items."""


class SharedStore(BaseStore):
    """Safe across processes: each has a connection of its own, and one writes at a time."""

    supports_ttl = False

    def __init__(self, path: Path, index: UsableIndex | None = None) -> None:
        self._path = path
        self._index = index
        self._lock = threading.Lock()
        self._opened: Any = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        # A transaction that reads before it writes would fail, not wait, when another item has written meanwhile.
        is_writing = self._opened is None or any(isinstance(op, PutOp) for op in ops)
        with self._lock, locked(lock_of(self._path)) if is_writing else nullcontext():
            found: list[Result] = self._store().batch(ops)
            return found

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.get_running_loop().run_in_executor(None, self.batch, list(ops))

    def _store(self) -> Any:
        if self._opened is None:
            from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415  Few graphs use a store.

            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            connection = sqlite3.connect(
                self._path,
                check_same_thread=False,
                isolation_level=None,
                timeout=_BUSY_SECONDS,
                factory=VectorConnection,
            )
            connection.execute("PRAGMA journal_mode=WAL")
            _keep_to_index(connection, self._path, self._index.identity if self._index else "")
            config: Any = dict(self._index.config) if self._index else None
            opened = SqliteStore(connection, index=config)
            opened.setup()
            self._opened = opened
        return self._opened


def _keep_to_index(connection: sqlite3.Connection, path: Path, wanted: str) -> None:
    """Raises UsageError when the entries that are there are indexed in another way: a search would miss them."""
    connection.execute("CREATE TABLE IF NOT EXISTS agentos_index (identity TEXT NOT NULL)")
    row = connection.execute("SELECT identity FROM agentos_index").fetchone()
    known = row[0] if row else ""
    has_entries = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone() and (
        connection.execute("SELECT 1 FROM store LIMIT 1").fetchone()
    )
    if known != wanted and has_entries:
        connection.close()
        raise UsageError(
            f"the store {path} has entries that were indexed by {known or 'no store.index'}, and this run has "
            f"{wanted or 'no store.index'}: a search would miss them. Use the same index, or move the file away."
        )
    with connection:
        connection.execute("DELETE FROM agentos_index")
        connection.execute("INSERT INTO agentos_index VALUES (?)", (wanted,))
