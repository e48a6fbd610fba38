"""An item's database: opened, damaged, peeked at without touching the disk."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypedDict

import pytest

from agentos.engine.checkpoints import sqlite as checkpoint
from agentos.engine.checkpoints.sqlite import CheckpointUnwritable, ItemDatabase, Peek
from agentos.engine.graph import ItemCheckpointer

Snapshot = dict[str, tuple[int, bytes]]


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lld_workflow_42.db"


@pytest.fixture
def database(db_path: Path) -> Iterator[ItemDatabase]:
    """An open item: its last commits are in the log, as they are while it runs and after a kill."""
    made = ItemDatabase.open(db_path)
    # LangGraph's tables, as far as they matter here.
    made.connection.executescript(
        "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT);"
        "CREATE TABLE writes (checkpoint_ns TEXT, checkpoint_id TEXT, task_path TEXT, channel TEXT);"
    )
    yield made
    made.connection.close()


def finish_node(database: ItemDatabase, node: str, number: int, channel: str = "text") -> None:
    with database.connection as connection:
        connection.execute("INSERT INTO checkpoints VALUES ('42', '', ?)", (f"{number:04}",))
        row = ("", f"{number:04}", f"~__pregel_pull, {node}", channel)
        connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?)", row)


def snapshot(folder: Path) -> Snapshot:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def as_after_a_kill(db_path: Path, folder: Path) -> Path:
    """A copy of the files as they are on disk now, with nobody holding them."""
    folder.mkdir()
    for path in db_path.parent.iterdir():
        if not path.name.endswith("-shm"):
            shutil.copy(path, folder)
    return folder / db_path.name


def sqlite_says(db_path: Path, folder: Path) -> Peek | None:
    """What SQLite itself makes of the files, in a copy."""
    copy = as_after_a_kill(db_path, folder)
    try:
        with closing(sqlite3.connect(copy)) as connection:
            rows = dict(connection.execute("SELECT name, value FROM agentos_item"))
            return Peek(ItemDatabase(connection).resumes_after(), rows.get("input_hash"))
    except sqlite3.Error:
        return None


# Where it lives.


def test_an_items_database_is_named_by_project_workflow_and_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    one = checkpoint.path_for(tmp_path / "one" / "repo", "lld", "7")
    other = checkpoint.path_for(tmp_path / "other" / "repo", "lld", "7")
    assert one.name == other.name == "lld_workflow_7.db"
    assert one.parent.parent == tmp_path / "home" / "checkpoints"
    assert one != other


def test_removing_leaves_nothing_and_twice_is_fine(db_path: Path, database: ItemDatabase) -> None:
    Path(f"{db_path}-journal").touch()
    checkpoint.remove(db_path)
    checkpoint.remove(db_path)
    assert list(db_path.parent.iterdir()) == []


# Opening.


def test_a_database_keeps_values_across_openings(db_path: Path) -> None:
    first = ItemDatabase.open(db_path)
    first.put("input_hash", "abc")
    first.put("input_hash", "def")
    first.connection.close()
    second = ItemDatabase.open(db_path)
    assert (second.get("input_hash"), second.get("nothing")) == ("def", None)
    second.connection.close()


def test_commits_reach_the_log_at_once_and_those_of_a_step_the_disk(database: ItemDatabase) -> None:
    def pragma(name: str) -> object:
        return database.connection.execute(f"PRAGMA {name}").fetchone()[0]

    normal, full = 1, 2
    assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", normal)
    with checkpoint.synced(database.connection):
        assert pragma("synchronous") == full
    assert pragma("synchronous") == normal


def test_others_may_not_look_into_a_new_state_folder(db_path: Path, database: ItemDatabase) -> None:
    assert db_path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4_000])
def test_a_damaged_file_is_a_database_error_and_is_left_alone(db_path: Path, content: bytes) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(content)
    with pytest.raises(sqlite3.DatabaseError):
        ItemDatabase.open(db_path)
    assert db_path.read_bytes() == content


def test_a_page_damaged_in_the_middle_is_found_when_it_opens(db_path: Path, database: ItemDatabase) -> None:
    for number in range(200):
        finish_node(database, f"node{number}", number)
    database.connection.close()
    content = bytearray(db_path.read_bytes())
    content[8192:12288] = os.urandom(4096)
    db_path.write_bytes(content)
    with pytest.raises(sqlite3.DatabaseError):
        ItemDatabase.open(db_path)


def test_a_damaged_database_is_set_aside_whole_and_makes_room(db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(b"rubbish")
    Path(f"{db_path}-wal").write_bytes(b"rubbish")
    kept = checkpoint.set_aside(db_path)
    assert kept.read_bytes() == b"rubbish"
    assert kept.name.startswith("lld_workflow_42.db.damaged-")
    assert list(db_path.parent.iterdir()) == [kept]


def test_a_folder_that_cannot_be_made_is_a_fault_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointUnwritable, match=r"cannot write the checkpoint: (Not a directory|File exists)"):
        ItemDatabase.open(tmp_path / "file" / "folder" / "a.db")


def test_a_database_that_cannot_be_written_is_a_fault_of_the_run(database: ItemDatabase) -> None:
    database.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(CheckpointUnwritable, match="cannot write the checkpoint: attempt to write a readonly"):
        database.put("a", "b")
    with pytest.raises(CheckpointUnwritable):
        database.keep_output(Path("a.md"), b"text")


def test_a_full_disk_is_a_fault_of_the_run_and_keeps_what_was_saved(db_path: Path, database: ItemDatabase) -> None:
    database.put("kept", "yes")
    pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
    database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CheckpointUnwritable, match="full"):
        database.keep_output(Path("a.md"), b"x" * 100_000)
    assert database.get("kept") == "yes"


def test_a_full_disk_is_a_fault_of_the_run_when_the_first_step_makes_its_tables(tmp_path: Path) -> None:
    with closing(ItemDatabase.open(tmp_path / "new.db").connection) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(CheckpointUnwritable, match="full"):
            ItemCheckpointer(connection).get_tuple({"configurable": {"thread_id": "42"}})


# Outputs.


def test_kept_outputs_are_written_beside_their_place(tmp_path: Path, database: ItemDatabase) -> None:
    target = tmp_path / "docs" / "new" / "lld-42.md"
    database.keep_output(target, b"draft")
    database.keep_output(target, b"final")
    assert database.write_outputs() == [str(target)]
    assert Path(f"{target}.tmp").read_bytes() == b"final"
    assert not target.exists()


def test_kept_outputs_can_be_listed_from_outside(db_path: Path, database: ItemDatabase, tmp_path: Path) -> None:
    database.keep_output(tmp_path / "b.md", b"b")
    database.keep_output(tmp_path / "a.md", b"a")
    assert sorted(checkpoint.kept_outputs(db_path)) == [str(tmp_path / "a.md"), str(tmp_path / "b.md")]


def test_without_a_readable_database_there_are_no_kept_outputs(db_path: Path) -> None:
    assert checkpoint.kept_outputs(db_path) == []
    db_path.parent.mkdir()
    db_path.write_bytes(b"rubbish")
    assert checkpoint.kept_outputs(db_path) == []


# Parking.


def test_a_parked_item_keeps_its_questions_and_the_answer_until_it_goes_on(database: ItemDatabase) -> None:
    finish_node(database, "draft", 1)
    assert database.has_checkpoint()
    assert (database.questions(), database.answer()) == (None, None)
    database.park([{"approve": "draft"}])
    assert (database.questions(), database.answer()) == ([{"approve": "draft"}], None)
    database.put_answer("no")
    database.put_answer({"approve": True})
    assert database.answer() == {"approve": True}
    finish_node(database, "finalize", 2)
    assert (database.questions(), database.answer()) == (None, None)


def test_an_answer_is_not_taken_for_the_next_question(database: ItemDatabase) -> None:
    finish_node(database, "draft", 1)
    database.park(["first?"])
    database.put_answer("yes")
    database.park(["second?"])
    assert (database.questions(), database.answer()) == (["second?"], None)


def test_a_new_database_has_no_checkpoint(tmp_path: Path) -> None:
    database = ItemDatabase.open(tmp_path / "new.db")
    assert not database.has_checkpoint()
    assert database.questions() is None
    database.connection.close()


# The last finished node.


def test_the_last_finished_node_is_the_newest_that_wrote_something(database: ItemDatabase) -> None:
    assert database.resumes_after() is None
    finish_node(database, "__start__", 1)
    assert database.resumes_after() is None
    finish_node(database, "draft", 2)
    finish_node(database, "review, then sign", 3)
    finish_node(database, "failing", 4, channel="__error__")
    finish_node(database, "asking", 5, channel="__interrupt__")
    assert database.resumes_after() == "review, then sign"


def test_nodes_of_subgraphs_and_numbers_of_sent_tasks_are_not_named(database: ItemDatabase) -> None:
    finish_node(database, "fan_out", 1)
    with database.connection as connection:
        connection.execute("INSERT INTO writes VALUES ('sub:1', '0002', '~__pregel_pull, inner', 'text')")
        connection.execute("INSERT INTO writes VALUES ('', '0003', '~__pregel_push, 0000000000, 0000000000', 'text')")
    assert database.resumes_after() == "fan_out"


def test_a_real_graph_is_peeked_at_after_each_of_its_nodes(db_path: Path, tmp_path: Path) -> None:
    from langgraph.graph import END, START, StateGraph

    from agentos.engine.graph import Execution

    class State(TypedDict):
        text: str

    seen: list[str | None] = []

    def node(name: str) -> Callable[[State], State]:
        def run(state: State) -> State:
            peeked = checkpoint.peek(db_path)
            assert peeked is not None
            seen.append(peeked.resumes_after)
            return {"text": state["text"] + name}

        return run

    graph = StateGraph(State)
    for name in ("one", "two", "three"):
        graph.add_node(name, node(name))
    for before, after in ((START, "one"), ("one", "two"), ("two", "three"), ("three", END)):
        graph.add_edge(before, after)
    database = ItemDatabase.open(db_path)
    Execution(graph.compile(), database.connection, "42").run({"text": ""}, lambda name: None)
    assert database.resumes_after() == "three"
    database.connection.close()
    assert seen == [None, "one", "two"]


# Peeking.


def test_there_is_nothing_to_peek_at_before_the_first_start(db_path: Path, tmp_path: Path) -> None:
    assert checkpoint.peek(db_path) is None
    assert list(tmp_path.iterdir()) == []


def test_peeking_sees_what_is_only_in_the_log_and_touches_nothing(db_path: Path, database: ItemDatabase) -> None:
    database.put("input_hash", "abc")
    finish_node(database, "draft", 1)
    assert Path(f"{db_path}-wal").stat().st_size > 0
    before = snapshot(db_path.parent)
    assert checkpoint.peek(db_path) == Peek("draft", "abc")
    assert snapshot(db_path.parent) == before


def test_peeking_sees_a_closed_database_and_makes_no_side_files(db_path: Path, database: ItemDatabase) -> None:
    database.put("input_hash", "abc")
    finish_node(database, "draft", 1)
    database.connection.close()
    before = snapshot(db_path.parent)
    assert list(before) == [db_path.name]
    assert checkpoint.peek(db_path) == Peek("draft", "abc")
    assert snapshot(db_path.parent) == before


def test_peeking_does_not_see_what_is_not_committed(db_path: Path, database: ItemDatabase) -> None:
    finish_node(database, "draft", 1)
    database.connection.execute("PRAGMA cache_size = 1")  # Uncommitted pages spill into the log.
    database.connection.execute("BEGIN")
    for number in range(2_000):
        database.connection.execute(
            "INSERT INTO writes VALUES ('', '9999', '~__pregel_pull, uncommitted', ?)", (f"text{number}",)
        )
    assert checkpoint.peek(db_path) == Peek("draft", None)
    database.connection.rollback()


def test_peeking_sees_a_database_that_grew_and_shrank(db_path: Path, database: ItemDatabase) -> None:
    database.keep_output(Path("big"), os.urandom(2_000_000))
    finish_node(database, "one", 1)
    with database.connection as connection:
        connection.execute("DELETE FROM agentos_outputs")
    database.connection.execute("VACUUM")
    finish_node(database, "two", 2)
    assert checkpoint.peek(db_path) == Peek("two", None)


def test_peeking_sees_through_a_log_that_was_reset_and_begun_again(db_path: Path, database: ItemDatabase) -> None:
    for number in range(60):
        finish_node(database, f"old{number}", number)
    database.connection.execute("PRAGMA wal_checkpoint(RESTART)")
    finish_node(database, "new", 100)
    # The log still holds frames from before the reset, behind the new ones.
    assert Path(f"{db_path}-wal").stat().st_size > 60 * 4096
    assert checkpoint.peek(db_path) == Peek("new", None)


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_every_page_size_is_read(db_path: Path, page_size: int) -> None:
    db_path.parent.mkdir()
    with closing(sqlite3.connect(db_path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("VACUUM")
    database = ItemDatabase.open(db_path)
    database.put("input_hash", "abc")
    assert checkpoint.peek(db_path) == Peek(None, "abc")
    database.connection.close()


@pytest.mark.parametrize("seed", range(8))
def test_after_a_kill_in_the_middle_of_a_write_peeking_agrees_with_sqlite(
    db_path: Path, database: ItemDatabase, tmp_path: Path, seed: int
) -> None:
    """The log is cut at a random byte, or its last frames hold rubbish: SQLite takes the last whole commit."""
    rng = random.Random(seed)
    for number in range(12):
        finish_node(database, f"node{number}", number)
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    log_path = Path(f"{killed}-wal")
    log = log_path.read_bytes()
    for case in range(12):
        if case % 2:
            torn = log[: rng.randrange(len(log))]
        else:
            place = rng.randrange(len(log) - 2 * 4120, len(log))
            torn = log[:place] + rng.randbytes(len(log) - place)
        log_path.write_bytes(torn)
        assert checkpoint.peek(killed) == sqlite_says(killed, tmp_path / f"truth{case}")


def test_a_commit_frame_over_an_old_page_is_not_taken_for_a_commit(
    db_path: Path, database: ItemDatabase, tmp_path: Path
) -> None:
    """A kill between a frame's header and its page, in a log that is written from its start again."""
    finish_node(database, "draft", 1)
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    log_path = Path(f"{killed}-wal")
    log = bytearray(log_path.read_bytes())
    whole = len(log)
    finish_node(database, "review", 2)
    grown = Path(f"{db_path}-wal").read_bytes()
    header_only = grown[: len(grown) - 4096] + bytes(4096)
    assert len(header_only) > whole
    log_path.write_bytes(header_only)
    assert checkpoint.peek(killed) == Peek("draft", None) == sqlite_says(killed, tmp_path / "truth")


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"\x37", b"\x37\x7f\x06\x82" + bytes(60), os.urandom(10_000), b"\x37\x7f\x06\x82" + os.urandom(10_000)],
    ids=["empty", "one byte", "zeros", "random", "random after the magic"],
)
def test_a_log_that_sqlite_would_not_trust_changes_nothing(
    db_path: Path, database: ItemDatabase, tmp_path: Path, rubbish: bytes
) -> None:
    database.put("input_hash", "abc")
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    Path(f"{killed}-wal").write_bytes(rubbish)
    assert checkpoint.peek(killed) == Peek(None, "abc") == sqlite_says(killed, tmp_path / "truth")


def test_a_page_number_beyond_the_database_costs_no_memory(
    db_path: Path, database: ItemDatabase, tmp_path: Path
) -> None:
    finish_node(database, "one", 1)
    finish_node(database, "two", 2)
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    log = bytearray(Path(f"{killed}-wal").read_bytes())
    struct.pack_into(">I", log, 32, 0xFFFFFFFF)
    Path(f"{killed}-wal").write_bytes(log)
    checkpoint.peek(killed)  # The answer is SQLite's to give; a 16 TB image is not.


@pytest.mark.parametrize("size", [0, 1, 10, 17, 18, 19, 99, 100, 511, 4095, 4096, 6000])
def test_a_truncated_database_is_peeked_at_without_harm(
    db_path: Path, database: ItemDatabase, tmp_path: Path, size: int
) -> None:
    finish_node(database, "one", 1)
    database.connection.close()
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    os.truncate(killed, size)
    before = snapshot(killed.parent)
    assert checkpoint.peek(killed) in (None, Peek(None, None))
    assert snapshot(killed.parent) == before


def test_rubbish_folders_and_other_peoples_databases_are_no_checkpoint(tmp_path: Path) -> None:
    rubbish, folder, foreign = tmp_path / "rubbish.db", tmp_path / "folder.db", tmp_path / "foreign.db"
    rubbish.write_bytes(os.urandom(50_000))
    folder.mkdir()
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    assert [checkpoint.peek(path) for path in (rubbish, folder, foreign)] == [None, None, None]


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_on_disk_make_peeking_fail(db_path: Path, database: ItemDatabase, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    database.put("input_hash", "abc")
    for number in range(5):
        finish_node(database, f"node{number}", number)
    killed = as_after_a_kill(db_path, tmp_path / "killed")
    originals = {path: path.read_bytes() for path in killed.parent.iterdir()}
    for _ in range(30):
        for path, content in originals.items():
            damaged = bytearray(content)
            for _ in range(rng.randrange(4)):
                place = rng.randrange(len(damaged))
                damaged[place : place + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(64))
            path.write_bytes(damaged)
        checkpoint.peek(killed)
        checkpoint.kept_outputs(killed)
