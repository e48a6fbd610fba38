"""Done-notes in PostgreSQL: which items a batch has done, for every machine that continues it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.engine.checkpoints.postgres import PostgresStore
from agentos.engine.checkpoints.postgres_session import Session
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.done_notes import Done
from agentos.outcomes import outcome_named

if TYPE_CHECKING:
    from psycopg import Cursor


class PostgresNotes:
    """Of one workflow in one project. What an item's claim guards is written under its fence."""

    def __init__(self, session: Session, project_dir: Path, workflow: str) -> None:
        self._session = session
        self._store = PostgresStore(session, project_dir)
        self._project_dir = project_dir
        self._of_workflow = (session.database.project, workflow)

    def mark_done(self, item_id: str, done: Done) -> None:
        documents = [self._store.path_kept(Path(path)) for path in done.documents]
        note = json.dumps([done.input_hash, done.outcome.name, done.run_id, documents])

        def put(cursor: Cursor[Any]) -> None:
            cursor.execute(
                "INSERT INTO done VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (project, workflow, item) DO UPDATE SET note = EXCLUDED.note",
                (*self._of_workflow, item_id, note),
            )

        self._session.commit(put, self._store.hold(ItemRef(self._of_workflow[1], item_id)))

    def done(self, item_id: str, input_hash: str) -> Done | None:
        for (note,) in self._noted(item_id):
            with suppress(ValueError, TypeError):
                known, outcome, run_id, documents = json.loads(note)
                if known == input_hash:
                    paths = tuple(str(self._project_dir / path) for path in documents)
                    return Done(known, outcome_named(str(outcome)), str(run_id), paths)
        return None

    def is_noted(self, item_id: str) -> bool:
        return bool(self._noted(item_id))

    def spent_usd(self) -> float:
        found = self._session.rows("SELECT usd FROM spent WHERE project = %s AND workflow = %s", self._of_workflow)
        return float(found[0][0]) if found else 0.0

    def note_spent(self, spent_usd: float) -> None:
        self._session.change(
            "INSERT INTO spent VALUES (%s, %s, %s) ON CONFLICT (project, workflow) DO UPDATE SET usd = EXCLUDED.usd",
            (*self._of_workflow, spent_usd),
        )

    def forget_spent(self) -> None:
        self._session.change("DELETE FROM spent WHERE project = %s AND workflow = %s", self._of_workflow)

    def forget(self, item_id: str) -> None:
        self._forget([item_id])

    def forget_all(self, item_ids: Iterable[str], run_id: str) -> None:
        """One statement: after a kill, all of them count as done or none does."""
        self.forget_spent()
        self._forget(list(item_ids))

    def _forget(self, item_ids: list[str]) -> None:
        self._session.change(
            "DELETE FROM done WHERE project = %s AND workflow = %s AND item = ANY(%s)", (*self._of_workflow, item_ids)
        )

    def _noted(self, item_id: str) -> list[tuple[Any, ...]]:
        query = "SELECT note FROM done WHERE project = %s AND workflow = %s AND item = %s"
        return self._session.rows(query, (*self._of_workflow, item_id))
