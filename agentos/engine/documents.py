"""Documents of items, from `outputs.write` in a node to the coordinator: who writes which, and where each waits."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agentos.engine.checkpoints.protocol import ItemCheckpoint
from agentos.errors import AgentosError
from agentos.files import read_regular
from agentos.outputs import UnusableTarget
from agentos.paths import home_dir, written_dir

_MOST_BYTES = 1 << 16


class WrittenByAnother(AgentosError):
    """Two items write the same document: one would replace the other's."""


def staged_path(path: str, checkpoint_address: str) -> Path:
    """Where a document waits beside its place, under a name that belongs to one item of one run.

    An item's checkpoint is held by one run at a time. After a kill its next run uses the same name again, so that
    nothing stays behind.
    """
    mark = hashlib.sha256(os.fsencode(checkpoint_address)).hexdigest()[:12]
    return Path(f"{path}.{mark}.tmp")


def note_written(project_dir: Path, item_id: str, paths: Iterable[str]) -> None:
    """Before documents are put into place: whose they are is known as long as they are there.

    What cannot be noted is no reason to lose a document.
    """
    folder = written_dir(project_dir)
    for path in paths:
        # What is under our own home is records of ours, each of one item.
        if not Path(path).is_relative_to(home_dir()):
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (folder / _mark(path)).write_text(json.dumps([path, item_id]))


def written_by(project_dir: Path, item_id: str) -> Iterator[Path]:
    """The item's documents that are still there."""
    for note in sorted(written_dir(project_dir).glob("*")):
        path, writer = _read_note(note)
        if writer == item_id and Path(path).is_file():
            yield Path(path)


def still_has(project_dir: Path, item_id: str, paths: Iterable[str]) -> bool:
    """Whether documents that the item put into place are there, and no other item's are in their place."""
    return all(Path(path).is_file() and _writer_before(project_dir, path) in ("", item_id) for path in paths)


def _writer_before(project_dir: Path, path: str) -> str:
    """The item that wrote what is there now; empty when nothing is there, or nobody knows."""
    known, writer = _read_note(written_dir(project_dir) / _mark(path))
    return writer if known == path and Path(path).exists() else ""


def _read_note(note: Path) -> tuple[str, str]:
    try:
        path, writer = json.loads(read_regular(note, _MOST_BYTES))
    except (OSError, ValueError, TypeError):
        return "", ""
    return str(path), str(writer)


def _mark(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


class Writers:
    """In the coordinator: which item writes which document."""

    def __init__(self, project_dir: Path) -> None:
        self._project_dir = project_dir
        self._by_path: dict[str, str] = {}

    def wrote(self, item_id: str, paths: Iterable[str]) -> None:
        """In an earlier run of the batch."""
        self._by_path.update(dict.fromkeys(paths, item_id))

    def writer_of(self, path: str, asked_by: str) -> str:
        """The item whose document is there, else the one that asked first: its document may wait in a checkpoint."""
        if path not in self._by_path:
            self._by_path[path] = _writer_before(self._project_dir, path) or asked_by
        return self._by_path[path]


class ItemDocuments:
    """In the worker: one item's documents. `writer_of` asks the coordinator which item writes a path."""

    def __init__(self, item_id: str, checkpoint: ItemCheckpoint, writer_of: Callable[[str], str]) -> None:
        self._item_id = item_id
        self._checkpoint = checkpoint
        self._writer_of = writer_of

    def keep(self, path: Path, content: bytes) -> None:
        """Until the item succeeds. Raises WrittenByAnother."""
        self._refuse_anothers(str(path))
        self._checkpoint.keep_output(path, content)

    def stage(self, checkpoint_address: str) -> list[str]:
        """Write each beside its place, on the disk itself, for the coordinator to put there. Returns the places.

        Raises UnusableTarget where it cannot.
        """
        paths = []
        for path, content in self._checkpoint.outputs():
            # A resumed item has not asked yet: its nodes wrote it in an earlier run.
            self._refuse_anothers(path)
            try:
                _write_synced(staged_path(path, checkpoint_address), content)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                raise UnusableTarget(f"cannot write {path}: {where}{error.strerror}") from error
            paths.append(path)
        return paths

    def _refuse_anothers(self, path: str) -> None:
        writer = self._writer_of(path)
        if writer != self._item_id:
            raise WrittenByAnother(
                f"{path} is the document of item {writer} and stays so; {self._item_id} needs a path of its own"
            )


def _write_synced(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
