"""Which items are done, kept while others of their batch are not: a stopped run resumes, it does not repeat."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentos.database import database_of
from agentos.engine.checkpoints import session_of
from agentos.engine.plan import Item
from agentos.files import read_regular, write_whole
from agentos.outcomes import Outcome, outcome_named
from agentos.paths import done_notes_dir

_FORGOTTEN = "forgotten"
"""A folder of its own: looked at with every item, and nearly always empty."""
_SPENT = "spent-usd"
_MOST_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Done:
    """An item that a run of the batch has done."""

    input_hash: str
    outcome: Outcome
    run_id: str
    documents: tuple[str, ...] = ()
    """What it has put into place."""


StillDone = Callable[[Item, Done], bool]
"""Whether what an item made is still there: its workflow knows."""


def always(_item: Item, _done: Done) -> bool:
    """For workflows of which nothing is known but their notes."""
    return True


class DoneNotes(Protocol):
    """Of one workflow in one project; where its checkpoints are."""

    def mark_done(self, item_id: str, done: Done) -> None:
        """So that the same command, after a stop, does not do the item again. Whoever does holds the item's claim."""

    def done(self, item_id: str, input_hash: str) -> Done | None:
        """How the item was done with this very input, if it was."""

    def is_noted(self, item_id: str) -> bool:
        """Whether it was done, with whatever input."""

    def spent_usd(self) -> float:
        """What the runs of the batch have spent so far; 0 if none had a budget."""

    def note_spent(self, spent_usd: float) -> None:
        """Until the batch is done or starts over."""

    def forget_spent(self) -> None: ...

    def forget(self, item_id: str) -> None: ...

    def forget_all(self, item_ids: Iterable[str], run_id: str) -> None:
        """In one step: after a kill, all of them count as done or none does."""


def notes_of(project_dir: Path, workflow: str) -> DoneNotes:
    """The done-notes of a workflow, where the project's checkpoints are."""
    database = database_of(project_dir)
    if database is None:
        return FileNotes(project_dir, workflow)
    from agentos.engine.postgres_notes import PostgresNotes  # noqa: PLC0415  Few have a database.

    return PostgresNotes(session_of(database), project_dir, workflow)


class FileNotes:
    """One small file per done item: claims keep two writers apart."""

    def __init__(self, project_dir: Path, workflow: str) -> None:
        self._directory = done_notes_dir(project_dir, workflow)

    def mark_done(self, item_id: str, done: Done) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._finish_forgetting()
        self._path(item_id).write_text(json.dumps([done.input_hash, done.outcome.name, done.run_id, done.documents]))

    def done(self, item_id: str, input_hash: str) -> Done | None:
        if any(item_id in forgotten for forgotten in self._forgotten().values()):
            return None
        try:
            known, outcome, run_id, *documents = json.loads(read_regular(self._path(item_id), _MOST_BYTES))
            done = Done(known, outcome_named(str(outcome)), str(run_id), tuple(map(str, *documents)))
        except (OSError, ValueError, TypeError):
            return None
        return done if known == input_hash else None

    def is_noted(self, item_id: str) -> bool:
        return self._path(item_id).exists()

    def spent_usd(self) -> float:
        try:
            spent = float(read_regular(self._directory / _SPENT, _MOST_BYTES))
        except (OSError, ValueError):
            return 0.0
        return spent if 0.0 <= spent < float("inf") else 0.0

    def note_spent(self, spent_usd: float) -> None:
        """A power cut may cost the last calls of it, a kill none."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        written = self._directory / f"{_SPENT}.new"
        written.write_text(f"{spent_usd:.6f}")
        written.replace(self._directory / _SPENT)

    def forget_spent(self) -> None:
        (self._directory / _SPENT).unlink(missing_ok=True)

    def forget(self, item_id: str) -> None:
        self._path(item_id).unlink(missing_ok=True)

    def forget_all(self, item_ids: Iterable[str], run_id: str) -> None:
        if self._directory.is_dir():
            self.forget_spent()
            (self._directory / _FORGOTTEN).mkdir(exist_ok=True, mode=0o700)
            write_whole(self._directory / _FORGOTTEN / f"{run_id}.json", json.dumps(list(item_ids)))
            self._finish_forgetting()

    def _finish_forgetting(self) -> None:
        for path, item_ids in self._forgotten().items():
            for item_id in item_ids:
                self.forget(item_id)
            path.unlink(missing_ok=True)

    def _forgotten(self) -> dict[Path, list[str]]:
        """What runs were about to forget: none, unless one was killed just then."""
        found = {}
        for path in (self._directory / _FORGOTTEN).glob("*.json"):
            with suppress(OSError, ValueError):
                found[path] = json.loads(read_regular(path, _MOST_BYTES))
        return found

    def _path(self, item_id: str) -> Path:
        return self._directory / f"{item_id}.done"
