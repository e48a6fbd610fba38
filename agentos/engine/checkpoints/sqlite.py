"""An item's database: whose it is, what it would resume from, what it will write. Knows no LangGraph."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.errors import AgentosError
from agentos.keys.redaction import Redactor
from agentos.paths import checkpoints_dir

_SIDE_FILES = ("-wal", "-shm", "-journal")
_ROOM_BYTES = 1 << 20
"""Less room than this is a full disk, whatever still fits."""
_NODE_PATH_PREFIX = "~__pregel_pull, "

# The write-ahead log, as https://www.sqlite.org/fileformat2.html#walformat has it.
_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_LOG_BYTE_ORDERS = {b"\x37\x7f\x06\x82": "<", b"\x37\x7f\x06\x83": ">"}
"""The byte order of checksums, by the log's first bytes."""


class CheckpointUnwritable(Exception):
    """The item's state cannot be saved: a fault of the run, not of the item."""


class InputChanged(AgentosError):
    """The item has a checkpoint that belongs to another input."""


class GraphChanged(AgentosError):
    """The item's checkpoint goes on with a node that the graph does not have."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What a database says from outside."""

    resumes_after: str | None
    """The last finished node; None when none has finished."""
    input_hash: str | None
    questions: list[Any] | None = None
    """What the item asks a person, when it is parked."""
    answer: Any | None = None
    """A person's answer, if there is one already."""
    is_untouched: bool = field(default=False, compare=False)
    """No node has left anything: whatever its input was, it is as good as new."""


def path_for(project_dir: Path, workflow: str, item_id: str) -> Path:
    """Where an item's state lives."""
    return path_in(checkpoints_dir(project_dir), workflow, item_id)


def path_in(directory: Path, workflow: str, item_id: str) -> Path:
    """The same for a caller that asks often and knows the project's folder."""
    return directory / f"{workflow}_workflow_{item_id}.db"


def remove(db_path: Path) -> None:
    """The database first: without it the side files mean nothing."""
    for suffix in ("", *_SIDE_FILES):
        Path(f"{db_path}{suffix}").unlink(missing_ok=True)


def can_keep(db_path: Path) -> bool:
    """Whether a database there could grow by a step: its disk takes writes and has room."""
    import tempfile  # noqa: PLC0415  Nearly no run comes here.

    try:
        with tempfile.TemporaryFile(dir=db_path.parent) as probe:
            probe.write(bytes(_ROOM_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError:
        return False
    return True


def set_aside(db_path: Path) -> Path:
    """Move a damaged database out of the way, keeping it for whoever wants to look."""
    kept = db_path.with_name(f"{db_path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for suffix in _SIDE_FILES:
        Path(f"{db_path}{suffix}").unlink(missing_ok=True)
    db_path.rename(kept)
    return kept


class ItemDatabase:
    """The engine's own tables beside LangGraph's, in the same file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.redactor = Redactor()
        """Masks keys in all that is kept. Whoever knows keys replaces it."""

    @classmethod
    def open(cls, db_path: Path) -> ItemDatabase:
        """Raises sqlite3.DatabaseError when the file is damaged, CheckpointUnwritable when it cannot be written."""
        with unwritable_is_a_fault():
            db_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            connection = sqlite3.connect(db_path, check_same_thread=False, timeout=10)
            try:
                # Commits reach the log at once, and the disk with the next step's: see `synced`.
                connection.executescript(
                    "PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                )
                if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                    raise sqlite3.DatabaseError("database disk image is malformed")
                connection.executescript(
                    "CREATE TABLE IF NOT EXISTS agentos_item (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
                    "CREATE TABLE IF NOT EXISTS agentos_outputs (path TEXT PRIMARY KEY, content BLOB NOT NULL);"
                )
            except BaseException:
                connection.close()
                raise
        return cls(connection)

    def get(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM agentos_item WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def put(self, name: str, value: str) -> None:
        kept = self.redactor.redact_text(value)
        with unwritable_is_a_fault(), self.connection:
            self.connection.execute("INSERT OR REPLACE INTO agentos_item VALUES (?, ?)", (name, kept))

    def keep_output(self, path: Path, content: bytes) -> None:
        """Remember a document until the item succeeds. Durable, so a resumed item still has it."""
        kept = self.redactor.redact_text(str(path)), self.redactor.redact(content)
        with unwritable_is_a_fault(), self.connection:
            self.connection.execute("INSERT OR REPLACE INTO agentos_outputs VALUES (?, ?)", kept)

    def write_outputs(self) -> list[str]:
        """Write every kept document to `{path}.tmp`; the coordinator renames them."""
        paths = []
        for path, content in self.connection.execute("SELECT path, content FROM agentos_outputs ORDER BY path"):
            target = Path(f"{path}.tmp")
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            paths.append(str(path))
        return paths

    def has_checkpoint(self) -> bool:
        """Whether any step has been saved. Without one, a database is as good as new."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'checkpoints'"
        if not self.connection.execute(query).fetchone():
            return False
        return bool(self.connection.execute("SELECT 1 FROM checkpoints LIMIT 1").fetchone())

    def park(self, questions: list[Any]) -> None:
        """The item waits for a person's answer to what it asks now."""
        visit = int((self._parked() or {}).get("visit", 0)) + 1
        self.put(
            "parked", json.dumps({"step": self._newest_step(), "visit": visit, "questions": questions}, default=str)
        )

    def questions(self) -> list[Any] | None:
        """What a parked item asks; None when it is not parked."""
        parked = self._parked()
        return parked["questions"] if parked else None

    def put_answer(self, answer: Any) -> None:
        """A person's answer to what the item asks now. A later one replaces it until the item goes on."""
        parked = self._parked() or {}
        self.put("answer", json.dumps({"step": parked["step"], "visit": parked["visit"], "answer": answer}))

    def answer(self) -> Any | None:
        """The answer to what the item asks now. Kept until it has moved on: a kill in between loses nothing."""
        parked, stored = self._parked(), json.loads(self.get("answer") or "null")
        is_current = parked and stored and (stored["step"], stored["visit"]) == (parked["step"], parked["visit"])
        return stored["answer"] if is_current else None

    def _parked(self) -> dict[str, Any] | None:
        """What was noted when the item parked, if it has not gone on since."""
        parked: dict[str, Any] | None = json.loads(self.get("parked") or "null")
        return parked if parked and parked["step"] == self._newest_step() else None

    def _newest_step(self) -> str | None:
        if not self.has_checkpoint():
            return None
        newest = "SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1"
        row = self.connection.execute(newest).fetchone()
        return str(row[0]) if row else None

    def resumes_after(self) -> str | None:
        return _last_finished_node(self.connection)

    def is_untouched(self) -> bool:
        """Whether no node, not even one of a subgraph, has left anything but an error."""
        if not _has_tables(self.connection, "checkpoints", "writes"):
            return True
        left = "SELECT 1 FROM writes WHERE task_path <> ? AND channel <> '__error__' LIMIT 1"
        return not self.connection.execute(left, (f"{_NODE_PATH_PREFIX}__start__",)).fetchone()


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
def synced(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits inside are on the disk itself, with all that came before them: they survive a power cut."""
    connection.execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous=NORMAL")


def peek(db_path: Path) -> Peek | None:
    """What a run would find, without touching the disk. None: no database, or one that does not open."""
    try:
        image = _read_image(db_path)
    except (OSError, struct.error):
        return None
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.deserialize(image)
            rows = dict(connection.execute("SELECT name, value FROM agentos_item"))
            item = ItemDatabase(connection)
            return Peek(
                resumes_after=_last_finished_node(connection),
                input_hash=rows.get("input_hash"),
                questions=item.questions(),
                answer=item.answer(),
                is_untouched=item.is_untouched(),
            )
        except (sqlite3.Error, OverflowError):
            return None


def kept_outputs(db_path: Path) -> list[str]:
    """The documents an unfinished item has waiting. Quick however big its state is: the coordinator asks."""
    try:
        uri = f"{db_path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            return [str(row[0]) for row in connection.execute("SELECT path FROM agentos_outputs")]
    except sqlite3.Error:
        return []


def _last_finished_node(connection: sqlite3.Connection) -> str | None:
    """LangGraph notes each task's writes under the checkpoint it started from; a node's path ends in its name.

    Tasks made by `Send` have a number for a path: the node that sent them is named instead.
    """
    if not _has_tables(connection, "checkpoints", "writes"):
        return None
    row = connection.execute(
        "SELECT substr(task_path, length(?1) + 1) FROM writes "
        "WHERE checkpoint_ns = '' AND substr(task_path, 1, length(?1)) = ?1 AND task_path <> ?1 || '__start__' "
        "AND channel NOT LIKE '\\_\\_%' ESCAPE '\\' ORDER BY checkpoint_id DESC, rowid DESC LIMIT 1",
        (_NODE_PATH_PREFIX,),
    ).fetchone()
    return str(row[0]) if row else None


def _has_tables(connection: sqlite3.Connection, *names: str) -> bool:
    return set(names) <= {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _read_image(db_path: Path) -> bytes:
    """The database with its committed write-ahead log applied, in memory: opening it would write side files."""
    image = bytearray(db_path.read_bytes())
    try:
        log = Path(f"{db_path}-wal").read_bytes()
    except FileNotFoundError:
        log = b""
    _apply_log(image, log)
    image[18:20] = b"\x01\x01"  # An image in memory has no log: say so in the header.
    return bytes(image)


def _apply_log(image: bytearray, log: bytes) -> None:
    """Put the committed pages of a write-ahead log in place. A log that SQLite would not trust changes nothing."""
    order = _LOG_BYTE_ORDERS.get(log[:4])
    if order is None or len(log) < _LOG_HEADER_BYTES:
        return
    if _checksum(log[:24], (0, 0), order) != struct.unpack(">II", log[24:32]):
        return
    page_size = int.from_bytes(log[8:12], "big")
    frames = _committed_frames(log, page_size, order)
    if not frames:
        return
    pages_in_all = int.from_bytes(log[frames[-1] + 4 : frames[-1] + 8], "big")
    for start in frames:
        page_number = int.from_bytes(log[start : start + 4], "big")
        if 1 <= page_number <= pages_in_all:
            offset = (page_number - 1) * page_size
            image.extend(bytes(max(0, offset + page_size - len(image))))
            image[offset : offset + page_size] = _page(log, start, page_size)
    del image[pages_in_all * page_size :]


def _committed_frames(log: bytes, page_size: int, order: str) -> list[int]:
    """Where the frames of whole transactions start.

    Only the last commit can be torn by a kill, or by a writer that is still at it. It alone is checked, which keeps a
    dry run over many items fast. What a power cut tore since the last sync is found when the item itself starts.
    """
    starts: list[int] = []
    commits: list[int] = []
    frame_bytes = _FRAME_HEADER_BYTES + page_size
    for start in range(_LOG_HEADER_BYTES, len(log) - frame_bytes + 1, frame_bytes):
        if log[start + 8 : start + 16] != log[16:24]:
            break  # Left over from before the log was last reset.
        starts.append(start)
        if log[start + 4 : start + 8] != bytes(4):
            commits.append(len(starts))
    while commits:
        first = commits[-2] if len(commits) > 1 else 0
        if all(_is_whole(log, start, page_size, order) for start in starts[first : commits[-1]]):
            return starts[: commits[-1]]
        commits.pop()
    return []


def _is_whole(log: bytes, start: int, page_size: int, order: str) -> bool:
    """Whether a frame's checksum, which goes on from that of the frame before it, is right."""
    is_first = start == _LOG_HEADER_BYTES
    before = log[24:32] if is_first else log[start - page_size - 8 : start - page_size]
    first, second = struct.unpack(">II", before)
    summed = log[start : start + 8] + _page(log, start, page_size)
    return _checksum(summed, (first, second), order) == struct.unpack(">II", log[start + 16 : start + 24])


def _page(log: bytes, start: int, page_size: int) -> bytes:
    return log[start + _FRAME_HEADER_BYTES : start + _FRAME_HEADER_BYTES + page_size]


def _checksum(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's running sum over pairs of 32-bit words."""
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
