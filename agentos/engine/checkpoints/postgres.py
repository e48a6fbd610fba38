"""Checkpoints in PostgreSQL: an item is a row, and what LangGraph saves of it is found by the row's number.

Every write carries the fence of the claim that it is made under, and is refused in its own transaction when the item
has passed to somebody else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentos.engine.checkpoints import fences, record
from agentos.engine.checkpoints.opened import OpenedCheckpoint
from agentos.engine.checkpoints.postgres_session import Session
from agentos.engine.checkpoints.protocol import (
    CheckpointUnusable,
    CheckpointUnwritable,
    FenceRefused,
    ItemRef,
    NotAsking,
    Standing,
    aside_name,
)

if TYPE_CHECKING:
    from psycopg import Cursor

    from agentos.engine.checkpoints.postgres_saver import PostgresItemSaver

ResultT = TypeVar("ResultT")
_OF_ITEM = "project = %s AND workflow = %s AND item = %s AND aside = ''"
_LANGGRAPH_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "resumes")


class PostgresStore:
    """The items of one project. Documents are kept by their way from the project: it is elsewhere on each machine."""

    def __init__(self, session: Session, project_dir: Path, fence: int = 0) -> None:
        """Without a fence of its own, what this process holds counts; what nobody holds may be changed by anybody."""
        self._session = session
        self._database = session.database
        self._project_dir = project_dir
        self._fence = fence

    def address(self, ref: ItemRef) -> str:
        return self._database.address(*ref)

    def items(self) -> list[ItemRef]:
        query = "SELECT workflow, item FROM items WHERE project = %s AND aside = ''"
        return sorted(ItemRef(*row) for row in self._session.rows(query, (self._database.project,)))

    def exists(self, ref: ItemRef) -> bool:
        return bool(self._session.rows(f"SELECT 1 FROM items WHERE {_OF_ITEM}", self._key(ref)))

    def peek(self, ref: ItemRef) -> Standing | None:
        """Exact: an item's standing is a column of its row."""
        found = self._session.rows(f"SELECT standing FROM items WHERE {_OF_ITEM}", self._key(ref))
        if not found:
            return None
        return record.from_text(found[0][0] or "") or Standing()

    def open(self, ref: ItemRef) -> PostgresCheckpoint:
        opened = self._open_row(ref)
        opened.read_saved_state()
        return opened

    def answer(self, ref: ItemRef, questions: Sequence[Any], answer: Any, edit: dict[str, Any] | None = None) -> None:
        if not self.exists(ref):
            raise NotAsking("the item has ended")
        opened = self._open_row(ref)
        if opened.standing.questions != list(questions):
            raise NotAsking("the item asks a different question, or none")
        opened.take_answer(answer, edit)

    def remove(self, ref: ItemRef) -> None:
        if not self.exists(ref):
            return

        def delete(cursor: Cursor[Any]) -> None:
            for table in _LANGGRAPH_TABLES:
                own = f"SELECT id::text FROM items WHERE {_OF_ITEM}"
                cursor.execute(f"DELETE FROM {table} WHERE thread_id IN ({own})", self._key(ref))
            cursor.execute(f"DELETE FROM items WHERE {_OF_ITEM}", self._key(ref))

        self._session.prepare()
        self._session.commit(delete, self.hold(ref))

    def keep_aside(self, ref: ItemRef, kind: str) -> str:
        aside = aside_name(kind)

        def rename(cursor: Cursor[Any]) -> None:
            cursor.execute(
                f"UPDATE items SET aside = %s, changed = clock_timestamp() WHERE {_OF_ITEM}", (aside, *self._key(ref))
            )

        self._session.commit(rename, self.hold(ref))
        return f"{ref.workflow}/{ref.item_id} {aside}"

    def can_keep(self, ref: ItemRef) -> bool:
        def touch(cursor: Cursor[Any]) -> None:
            cursor.execute(f"UPDATE items SET changed = clock_timestamp() WHERE {_OF_ITEM}", self._key(ref))

        try:
            self._session.commit(touch)
        except CheckpointUnwritable:
            return False
        return True

    def output_paths(self, ref: ItemRef) -> list[str]:
        query = f"SELECT path FROM outputs WHERE item_id = (SELECT id FROM items WHERE {_OF_ITEM}) ORDER BY path"
        try:
            return [self.path_here(row[0]) for row in self._session.rows(query, self._key(ref))]
        except CheckpointUnwritable:
            return []

    def forget_set_aside(self, before: datetime) -> None:
        """What nobody has wanted to look at since then, of this project."""
        old = "project = %s AND aside <> '' AND changed < %s"
        parameters = (self._database.project, before)
        if not self._session.rows(f"SELECT 1 FROM items WHERE {old} LIMIT 1", parameters):
            return

        def delete(cursor: Cursor[Any]) -> None:
            for table in _LANGGRAPH_TABLES:
                own = f"SELECT id::text FROM items WHERE {old}"
                cursor.execute(f"DELETE FROM {table} WHERE thread_id IN ({own})", parameters)
            cursor.execute(f"DELETE FROM items WHERE {old}", parameters)

        self._session.commit(delete)

    def close(self) -> None:
        self._session.close()

    def hold(self, ref: ItemRef) -> tuple[str, Sequence[Any]]:
        """The first statement of a transaction that writes: it fails when the item is somebody else's."""
        name = f"{ref.workflow}/{ref.item_id}"
        project = self._database.project
        fence = self._fence or fences.held(fences.ClaimRef(self._database.url, project, name))
        if fence:
            return "SELECT hold_claim(%s, %s, %s)", (project, name, fence)
        return "SELECT hold_unclaimed(%s, %s)", (project, name)

    def path_kept(self, path: Path) -> str:
        """A document's way from the project; one that is elsewhere keeps its place."""
        try:
            return str(path.relative_to(self._project_dir))
        except ValueError:
            return str(path)

    def path_here(self, kept: bytes) -> str:
        return str(self._project_dir / os.fsdecode(bytes(kept)))

    def _key(self, ref: ItemRef) -> tuple[str, str, str]:
        return (self._database.project, ref.workflow, ref.item_id)

    def _open_row(self, ref: ItemRef) -> PostgresCheckpoint:
        self._session.prepare()

        def make(cursor: Cursor[Any]) -> None:
            cursor.execute(
                "INSERT INTO items (project, workflow, item) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                self._key(ref),
            )

        self._session.commit(make, self.hold(ref))
        query = f"SELECT id, standing FROM items WHERE {_OF_ITEM}"
        rows = self._session.rows(query, self._key(ref))
        if not rows:
            raise FenceRefused  # Removed since by whoever has it now.
        number, text = rows[0]
        return PostgresCheckpoint(self, self._session, ref, number, _standing(text))


class PostgresCheckpoint(OpenedCheckpoint):
    """An item's rows, open in its worker."""

    def __init__(self, store: PostgresStore, session: Session, ref: ItemRef, number: int, standing: Standing) -> None:
        super().__init__(ref.item_id)
        self._store = store
        self._session = session
        self._ref = ref
        self._number = number
        # The standing moves with each transaction, whichever threads they come from.
        self._lock = threading.Lock()
        self.standing = standing

    @property
    def thread_id(self) -> str:
        """What LangGraph's rows of the item are found by."""
        return str(self._number)

    @cached_property
    def saver(self) -> PostgresItemSaver:
        from agentos.engine.checkpoints.postgres_saver import PostgresItemSaver  # noqa: PLC0415  Loads LangGraph.

        return PostgresItemSaver(self)

    def forget_used_answers(self) -> None:
        def restore(cursor: Cursor[Any]) -> None:
            cursor.execute(
                "DELETE FROM checkpoint_writes WHERE thread_id = %s AND channel = '__resume__'"
                " AND EXISTS (SELECT 1 FROM facts WHERE item_id = %s AND name = 'asked')",
                (self.thread_id, self._number),
            )
            cursor.execute(
                f"INSERT INTO checkpoint_writes ({_WRITE_COLUMNS})"
                f" SELECT {_WRITE_COLUMNS} FROM resumes WHERE thread_id = %s ON CONFLICT DO NOTHING",
                (self.thread_id,),
            )

        self._commit(restore)

    def get(self, name: str) -> str | None:
        query = "SELECT value FROM facts WHERE item_id = %s AND name = %s"
        found = self._session.rows(query, (self._number, name))
        return bytes(found[0][0]).decode(errors="surrogatepass") if found else None

    def put(self, name: str, value: str) -> None:
        kept = self.redactor.redact_text(value).encode(errors="surrogatepass")
        self._commit(lambda cursor: _put_fact(cursor, self._number, name, kept))

    def keep_output(self, path: Path, content: bytes) -> None:
        kept = os.fsencode(self.redactor.redact_text(self._store.path_kept(path)))
        masked = self.redactor.redact(content)
        query = (
            "INSERT INTO outputs VALUES (%s, %s, %s) "
            "ON CONFLICT (item_id, path) DO UPDATE SET content = EXCLUDED.content"
        )
        self._commit(lambda cursor: cursor.execute(query, (self._number, kept, masked)))

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        query = "SELECT path, content FROM outputs WHERE item_id = %s ORDER BY path"
        for path, content in self._session.rows(query, (self._number,)):
            yield self._store.path_here(path), bytes(content)

    def close(self) -> None:
        """Everything is in the database already."""

    def read(self, work: Callable[[Cursor[Any]], ResultT]) -> ResultT:
        with self._lock:
            return self._session.read(work)

    def move(
        self, after: Callable[[Standing], Standing], work: Callable[[Cursor[Any]], Any] = lambda _cursor: None
    ) -> None:
        """One commit: the work, and where the item stands after it."""
        with self._lock:
            following = after(self.standing)

            def commit(cursor: Cursor[Any]) -> None:
                work(cursor)
                self._note(cursor, following)

            self._session.commit(commit, self._store.hold(self._ref))
            self.standing = following

    def _stand(self, after: Callable[[Standing], Standing], *, is_synced: bool = False) -> None:
        """Every commit of the server is on its disk."""
        self.move(after)

    def _commit(self, work: Callable[[Cursor[Any]], Any]) -> None:
        with self._lock:
            self._session.commit(work, self._store.hold(self._ref))

    def _note(self, cursor: Cursor[Any], following: Standing) -> None:
        if following != self.standing:
            text = self.redactor.redact_text(record.to_text(following))
            cursor.execute(
                "UPDATE items SET standing = %s, changed = clock_timestamp() WHERE id = %s", (text, self._number)
            )
        if following.asks_anew(self.standing):
            self._keep_resumes(cursor)

    def _keep_resumes(self, cursor: Cursor[Any]) -> None:
        """Which answers LangGraph has been given so far, for `forget_used_answers`."""
        cursor.execute("DELETE FROM resumes WHERE thread_id = %s", (self.thread_id,))
        cursor.execute(
            f"INSERT INTO resumes ({_WRITE_COLUMNS}) SELECT {_WRITE_COLUMNS} FROM checkpoint_writes"
            " WHERE thread_id = %s AND channel = '__resume__'",
            (self.thread_id,),
        )
        _put_fact(cursor, self._number, "asked", b"")


_WRITE_COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"


def _put_fact(cursor: Cursor[Any], number: int, name: str, value: bytes) -> None:
    cursor.execute(
        "INSERT INTO facts VALUES (%s, %s, %s) ON CONFLICT (item_id, name) DO UPDATE SET value = EXCLUDED.value",
        (number, name, value),
    )


def _standing(text: str | None) -> Standing:
    standing = Standing() if text is None else record.from_text(text)
    if standing is None:
        raise CheckpointUnusable("outdated", "made by another version of AgentOS")
    return standing
