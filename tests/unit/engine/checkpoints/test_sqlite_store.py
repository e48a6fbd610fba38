"""What only SQLite does: files beside a database, damage of many kinds, a disk that takes no more."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from agentos.clock import utc_now
from agentos.engine.checkpoints import scratch, store_at, store_for
from agentos.engine.checkpoints.protocol import CheckpointUnusable, CheckpointUnwritable, ItemRef, Standing
from agentos.engine.checkpoints.sqlite import SqliteStore
from agentos.engine.checkpoints.sqlite_checkpoint import SqliteCheckpoint, synced

REF = ItemRef("lld", "42")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "state")


@pytest.fixture
def db_path(store: SqliteStore) -> Path:
    return Path(store.address(REF))


@pytest.fixture
def checkpoint(store: SqliteStore) -> Iterator[SqliteCheckpoint]:
    """An open item: its last commits are in the log, as they are while it runs and after a kill."""
    with closing(store.open(REF)) as made:
        made.begin("abc")
        yield made


def names(db_path: Path) -> list[str]:
    return sorted(path.name for path in db_path.parent.iterdir())


# Files.


def test_an_items_database_is_named_by_project_workflow_and_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    one = Path(store_for(tmp_path / "one" / "repo").address(REF))
    other = Path(store_for(tmp_path / "other" / "repo").address(REF))
    assert one.name == other.name == "lld_workflow_42.db"
    assert one.parent.parent == tmp_path / "home" / "checkpoints"
    assert one != other
    assert store_at(str(one)).address(REF) == str(one)


def test_a_scratch_checkpoint_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(scratch()) as made:
        made.begin("abc")
        made.put("fact", "text")
    assert list(tmp_path.iterdir()) == []


def test_others_may_not_look_into_a_new_state_folder(db_path: Path, checkpoint: SqliteCheckpoint) -> None:
    assert db_path.parent.stat().st_mode & 0o077 == 0
    assert Path(f"{db_path}.peek.json").stat().st_mode & 0o077 == 0


def test_removing_takes_every_file_of_it(store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint) -> None:
    Path(f"{db_path}-journal").touch()
    assert len(names(db_path)) == 5
    store.remove(REF)
    assert names(db_path) == []


def test_what_is_kept_aside_can_be_read_with_its_log(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    checkpoint.put("fact", "only in the log")
    kept = db_path.with_name(store.keep_aside(REF, "damaged"))
    assert names(db_path) == sorted([kept.name, f"{kept.name}-wal"])
    with closing(sqlite3.connect(kept)) as connection:
        rows = dict(connection.execute("SELECT name, value FROM agentos_item"))
    assert rows["fact"] == "only in the log"


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs a time zone per process")
def test_what_is_kept_aside_is_named_by_utc(
    store: SqliteStore, checkpoint: SqliteCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "FAR-14")
        time.tzset()
        before = utc_now().replace(microsecond=0)
        name = store.keep_aside(REF, "damaged")
    time.tzset()
    found = re.search(r"damaged-(\d{8}-\d{6})-", name)
    assert found
    assert before <= datetime.strptime(f"{found[1]}+0000", "%Y%m%d-%H%M%S%z") <= utc_now()


def test_a_record_of_an_earlier_database_is_not_taken_for_a_new_ones(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    checkpoint.close()
    db_path.unlink()  # All that a kill in the middle of removing got to.
    assert store.peek(REF) is None
    with closing(store.open(REF)):
        assert store.peek(REF) == Standing()


def test_commits_reach_the_log_at_once_and_those_of_a_step_the_disk(checkpoint: SqliteCheckpoint) -> None:
    def pragma(name: str) -> object:
        return checkpoint.connection.execute(f"PRAGMA {name}").fetchone()[0]

    normal, full = 1, 2
    assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", normal)
    with synced(checkpoint.connection):
        assert pragma("synchronous") == full
    assert pragma("synchronous") == normal


# Damage.


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4_000])
def test_a_damaged_file_is_told_and_not_touched(store: SqliteStore, db_path: Path, content: bytes) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(content)
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.open(REF)
    assert db_path.read_bytes() == content
    assert store.output_paths(REF) == []


def test_a_page_damaged_in_the_middle_is_found_when_it_opens(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    for number in range(200):
        checkpoint.put(f"fact {number}", "text" * 50)
    checkpoint.close()
    content = bytearray(db_path.read_bytes())
    content[8192:12288] = os.urandom(4096)
    db_path.write_bytes(content)
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.open(REF)


def test_text_that_is_none_is_damage_and_no_full_disk(store: SqliteStore, checkpoint: SqliteCheckpoint) -> None:
    with checkpoint.connection as connection:
        connection.execute("UPDATE agentos_item SET value = CAST(x'80ff' AS TEXT)")
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.open(REF)


def test_a_record_that_knows_of_more_steps_than_the_database_is_proof_of_a_loss(
    tmp_path: Path, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    with checkpoint.moving(lambda standing: replace(standing, steps=3)), checkpoint.connection as connection:
        checkpoint.note_standing(connection.cursor())
    copies = tmp_path / "copied without the log"
    copies.mkdir()
    for path in (db_path, Path(f"{db_path}.peek.json")):
        shutil.copy(path, copies)
    with pytest.raises(CheckpointUnusable, match="write-ahead log is missing or damaged: 3 of 3 steps are lost"):
        SqliteStore(copies).open(REF)


@pytest.mark.parametrize("place", ["", ".peek.json"])
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint, place: str
) -> None:
    checkpoint.close()
    Path(f"{db_path}{place}").unlink()
    os.mkfifo(f"{db_path}{place}")
    assert store.peek(REF) == (Standing() if place else None)
    assert store.output_paths(REF) == []
    if not place:
        with pytest.raises(CheckpointUnusable, match="not a regular file"):
            store.open(REF)


def test_what_a_kill_in_the_middle_of_removing_leaves_is_gone_with_the_next_removal(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    db_path.unlink()
    assert Path(f"{db_path}-shm").exists()
    with closing(store.open(REF)) as again:
        assert again.standing == Standing()
    store.remove(REF)
    assert list(db_path.parent.iterdir()) == []


def test_looking_for_documents_leaves_nothing_beside_a_closed_database(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint
) -> None:
    checkpoint.keep_output(Path("/a.md"), b"text")
    assert store.output_paths(REF) == ["/a.md"]
    checkpoint.close()
    before = sorted(path.name for path in db_path.parent.iterdir())
    assert store.output_paths(REF) == ["/a.md"]
    assert sorted(path.name for path in db_path.parent.iterdir()) == before


def test_an_empty_file_is_as_good_as_none(store: SqliteStore, db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.touch()
    assert store.peek(REF) == Standing()
    with closing(store.open(REF)) as made:
        assert (made.standing, made.has_steps) == (Standing(), False)


def test_a_database_from_before_the_engine_kept_a_standing_is_outdated(store: SqliteStore, db_path: Path) -> None:
    db_path.parent.mkdir()
    with closing(sqlite3.connect(db_path)) as connection, connection:
        connection.execute("CREATE TABLE agentos_item (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute("INSERT INTO agentos_item VALUES ('input_hash', 'abc')")
    with pytest.raises(CheckpointUnusable, match="checkpoint is outdated"):
        store.open(REF)


def test_a_folder_is_no_checkpoint(store: SqliteStore, db_path: Path) -> None:
    db_path.mkdir(parents=True)
    assert store.peek(REF) is None


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_on_disk_make_looking_fail(
    store: SqliteStore, db_path: Path, checkpoint: SqliteCheckpoint, seed: int
) -> None:
    rng = random.Random(seed)
    checkpoint.park(["sure?"])
    checkpoint.close()
    originals = {path: path.read_bytes() for path in db_path.parent.iterdir()}
    for _ in range(30):
        for path, content in originals.items():
            damaged = bytearray(content)
            for _ in range(rng.randrange(4)):
                place = rng.randrange(len(damaged))
                damaged[place : place + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(64))
            path.write_bytes(damaged)
        assert store.peek(REF) in (Standing(), Standing(input_hash="abc", questions=["sure?"]))
        store.output_paths(REF)


# A disk that takes no more.


def test_a_folder_that_cannot_be_made_is_a_fault_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointUnwritable, match=r"cannot write the checkpoint /.+: (Not a directory|File exists)"):
        SqliteStore(tmp_path / "file" / "folder").open(REF)


def test_a_database_that_cannot_be_written_is_a_fault_of_the_run(checkpoint: SqliteCheckpoint) -> None:
    checkpoint.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(CheckpointUnwritable, match="cannot write the checkpoint: attempt to write a readonly"):
        checkpoint.put("a", "b")
    with pytest.raises(CheckpointUnwritable):
        checkpoint.keep_output(Path("a.md"), b"text")
    with pytest.raises(CheckpointUnwritable):
        checkpoint.park(["sure?"])
    assert checkpoint.standing == Standing(input_hash="abc")


def test_a_record_that_cannot_be_written_is_a_fault_of_the_run(tmp_path: Path) -> None:
    def fail(path: Path, text: str, *, is_lasting: bool) -> None:
        raise OSError(28, "No space left on device")

    with (
        closing(SqliteStore(tmp_path, fail).open(REF)) as made,
        pytest.raises(CheckpointUnwritable, match="No space left"),
    ):
        made.begin("abc")


def test_a_full_disk_is_a_fault_of_the_run_and_keeps_what_was_saved(checkpoint: SqliteCheckpoint) -> None:
    checkpoint.put("kept", "yes")
    fill(checkpoint.connection)
    with pytest.raises(CheckpointUnwritable, match="full"):
        checkpoint.keep_output(Path("a.md"), b"x" * 100_000)
    assert checkpoint.get("kept") == "yes"


def test_a_step_that_does_not_fit_leaves_neither_itself_nor_what_the_engine_notes_of_it(
    store: SqliteStore, checkpoint: SqliteCheckpoint
) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    saver, config = checkpoint.saver, {"configurable": {"thread_id": "42", "checkpoint_ns": ""}}
    checkpoint.name_task("1", "draft")
    state = {**empty_checkpoint(), "channel_values": {"text": "x" * 100_000}}
    fill(checkpoint.connection)
    with pytest.raises(CheckpointUnwritable, match="full"):
        saver.put(config, state, {"step": 1}, {})
    assert (saver.get_tuple(checkpoint.config), checkpoint.standing) == (None, Standing(input_hash="abc"))
    assert store.peek(REF) == Standing(input_hash="abc")
    with closing(store.open(REF)) as again:
        assert again.standing == Standing(input_hash="abc")


def fill(connection: sqlite3.Connection) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
