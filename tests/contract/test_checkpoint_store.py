"""Every checkpoint store keeps the same promises: to the worker that opens it, and to whoever only looks."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from checkpoint_graphs import REF, Story, ask, fail, run

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.opening import InputChanged, open_item
from agentos.engine.checkpoints.protocol import CheckpointStore, CheckpointUnusable, ItemRef, NotAsking, Standing
from agentos.engine.checkpoints.sqlite import SqliteStore
from agentos.engine.plan import input_hash
from agentos.keys.redaction import Redactor

HASH = input_hash({"text": "x"})
SECRET = "SENTINEL-alpha-Zq81+/kd"


@dataclass(frozen=True)
class Kind:
    """A store under test, and how to do to it what the world does."""

    name: str
    make: Callable[[Path], CheckpointStore]
    damage: Callable[[Path], None]
    make_outdated: Callable[[Path], None]
    """Both are given what the item's address names."""


def _overwrite(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, but long enough to look like one" * 100)


def _with_another_format(path: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE agentos_item SET value = '{}' WHERE name = 'standing'")


KINDS = [Kind("sqlite", SqliteStore, _overwrite, _with_another_format)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def store(kind: Kind, folder: Path) -> CheckpointStore:
    return kind.make(folder)


def peeked(store: CheckpointStore) -> Standing:
    """What it says, after proof that looking changes nothing."""
    folder = Path(store.address(REF)).parent
    before = snapshot(folder)
    found = store.peek(REF)
    assert snapshot(folder) == before
    assert found is not None
    return found


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.glob("*")}


# Nothing there.


def test_before_an_item_starts_looking_finds_and_makes_nothing(store: CheckpointStore, folder: Path) -> None:
    assert store.peek(REF) is None
    assert (store.items(), store.exists(REF), store.output_paths(REF)) == ([], False, [])
    store.remove(REF)
    assert not folder.exists()


def test_items_are_listed_in_order_and_kept_apart(store: CheckpointStore) -> None:
    refs = [ItemRef("flow", "1"), ItemRef("flow", "2_workflow_1"), ItemRef("lld", "1")]
    assert len({store.address(ref) for ref in refs}) == 3
    for ref in reversed(refs):
        store.open(ref).close()
    assert store.items() == refs
    store.remove(refs[0])
    assert store.items() == refs[1:]


# Running, looking, resuming.


@pytest.mark.parametrize("how", ["node", "async_node"])
def test_an_item_is_looked_at_after_each_of_its_nodes(store: CheckpointStore, how: str) -> None:
    seen: list[Standing] = []
    story = Story(dict.fromkeys(("one", "two", "three"), lambda: seen.append(peeked(store))))
    assert run(store, story.chain("one", "two", "three", make=getattr(story, how))).trail == ["one", "two", "three"]
    assert seen == [
        # Two steps are LangGraph's own: it takes the input.
        Standing(input_hash=HASH, steps=2),
        Standing("one", HASH, is_untouched=False, steps=3),
        Standing("two", HASH, is_untouched=False, steps=4),
    ]
    assert peeked(store) == Standing("three", HASH, is_untouched=False, steps=5)


def test_an_item_resumes_after_its_last_finished_node(store: CheckpointStore) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two", "three"))
    assert peeked(store).resumes_after == "one"
    story.deeds = {}
    assert run(store, story.chain("one", "two", "three")).trail == ["one", "two", "three"]
    assert story.ran == ["one", "two", "two", "three"]


def test_a_finished_item_that_nobody_removed_runs_no_node_again(store: CheckpointStore) -> None:
    story = Story()
    run(store, story.chain("one"))
    assert run(store, story.chain("one")).trail == ["one"]
    assert story.ran == ["one"]


def test_a_node_finished_in_an_unfinished_step_counts(store: CheckpointStore) -> None:
    story = Story({"right": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.side_by_side())
    assert peeked(store).resumes_after == "left"
    story.deeds = {}
    run(store, story.side_by_side())
    assert sorted(story.ran) == ["first", "left", "right", "right"]


def test_nodes_of_subgraphs_are_saved_and_named_by_their_way_from_the_top(store: CheckpointStore) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.nested())
    assert peeked(store).resumes_after == "inside.one"
    story.deeds = {}
    run(store, story.nested())
    assert story.ran == ["before", "one", "two", "two", "after"]
    assert peeked(store).resumes_after == "after"


def test_nodes_that_were_sent_are_named(store: CheckpointStore) -> None:
    story = Story({"join": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.sent())
    assert peeked(store).resumes_after == "work"


def test_small_facts_and_documents_last_from_one_opening_to_the_next(store: CheckpointStore, tmp_path: Path) -> None:
    with closing(store.open(REF)) as checkpoint:
        checkpoint.begin(HASH)
        checkpoint.put("calls", "1")
        checkpoint.put("calls", "2")
        for name, content in (("b.md", b"b"), ("a.md", b"draft"), ("a.md", b"final")):
            checkpoint.keep_output(tmp_path / name, content)
    with closing(store.open(REF)) as checkpoint:
        assert (checkpoint.get("calls"), checkpoint.get("nothing")) == ("2", None)
        assert list(checkpoint.outputs()) == [(str(tmp_path / "a.md"), b"final"), (str(tmp_path / "b.md"), b"b")]
        assert sorted(store.output_paths(REF)) == [str(tmp_path / "a.md"), str(tmp_path / "b.md")]


def test_no_key_is_kept(store: CheckpointStore, folder: Path) -> None:
    with closing(store.open(REF)) as checkpoint:
        checkpoint.redactor = Redactor([SECRET])
        checkpoint.begin(HASH)
        checkpoint.put("fact", f"with {SECRET}")
        checkpoint.keep_output(Path("a.md"), SECRET.encode())
        checkpoint.park([f"is {SECRET} right?"])
    assert peeked(store).questions != [f"is {SECRET} right?"]
    assert not [name for name, (_, content) in snapshot(folder).items() if SECRET.encode() in content]


# Another input.


def test_a_changed_input_is_refused_once_a_node_has_left_something(store: CheckpointStore) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    with pytest.raises(InputChanged, match="--fresh"):
        open_item(store, REF, {"text": "y"})
    opened = open_item(store, REF, {"text": "y"}, fresh=True)
    assert (opened.initial_state, opened.notice) == ({"text": "y"}, "")
    opened.checkpoint.close()


@pytest.mark.parametrize("shape", ["chain", "nested"])
def test_a_changed_input_is_taken_while_no_node_has_left_anything(store: CheckpointStore, shape: str) -> None:
    story = Story({"one": fail})
    graph = story.chain("one")
    if shape == "nested":
        inner = graph.compile()
        graph = story.chain("inside", make=lambda _name: inner)
    with pytest.raises(RuntimeError, match="sour"):
        run(store, graph)
    assert peeked(store).is_untouched
    opened = open_item(store, REF, {"text": "y"})
    assert (opened.initial_state, opened.checkpoint.has_steps) == ({"text": "y"}, False)
    assert "nothing was done with the old one" in opened.notice
    assert opened.checkpoint.standing == Standing(input_hash=input_hash({"text": "y"}))
    opened.checkpoint.close()


# A person's answer.


def test_a_parked_item_asks_takes_an_answer_and_continues_with_it(store: CheckpointStore) -> None:
    story = Story({"two": ask("sure?")})
    graph = story.chain("one", "two", "three")
    assert run(store, graph).questions == ["sure?"]
    asking = peeked(store)
    assert len(asking.interrupt_ids or ()) == 1
    ids = asking.interrupt_ids
    assert asking == Standing("one", HASH, questions=["sure?"], interrupt_ids=ids, is_untouched=False, steps=3)
    store.answer(REF, ["sure?"], "no")
    store.answer(REF, ["sure?"], {"sure": True})
    assert (peeked(store).questions, peeked(store).answer) == (["sure?"], {"sure": True})
    assert run(store, graph).trail == ["one", "two", "{'sure': True}", "three"]
    assert (peeked(store).questions, peeked(store).answer) == (None, None)


def test_an_answer_is_kept_until_the_item_has_continued(store: CheckpointStore) -> None:
    story = Story({"two": ask("sure?")})
    run(store, story.chain("one", "two"))
    store.answer(REF, ["sure?"], "yes")
    story.deeds = {"two": fail}
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    assert peeked(store).answer == "yes"
    story.deeds = {"two": ask("sure?")}
    assert run(store, story.chain("one", "two")).trail == ["one", "two", "yes"]


def test_an_answer_is_not_taken_for_the_next_question_of_the_same_node(store: CheckpointStore) -> None:
    graph = Story({"two": ask("first?", "second?")}).chain("one", "two")
    run(store, graph)
    store.answer(REF, ["first?"], "yes")
    assert run(store, graph).questions == ["second?"]
    assert (peeked(store).questions, peeked(store).answer) == (["second?"], None)
    store.answer(REF, ["second?"], "no")
    assert run(store, graph).trail == ["one", "two", "yes no"]


def test_nor_when_the_worker_dies_before_it_could_say_what_it_asks(store: CheckpointStore) -> None:
    graph = Story({"two": ask("first?", "second?")}).chain("one", "two")
    run(store, graph)
    store.answer(REF, ["first?"], "yes")
    assert run(store, graph, park=False).questions == ["second?"]
    assert (peeked(store).questions, peeked(store).answer) == (["second?"], None)


def test_an_answer_to_something_else_is_refused(store: CheckpointStore) -> None:
    with pytest.raises(NotAsking):
        store.answer(REF, ["sure?"], "yes")
    assert not store.exists(REF)
    run(store, Story({"two": ask("sure?")}).chain("one", "two"))
    with pytest.raises(NotAsking):
        store.answer(REF, ["really?"], "yes")
    assert peeked(store).answer is None


# Removing and keeping aside.


def test_removing_leaves_nothing_even_while_it_is_open(store: CheckpointStore, folder: Path) -> None:
    with closing(store.open(REF)) as checkpoint:
        checkpoint.begin(HASH)
        store.remove(REF)
        store.remove(REF)
        assert list(folder.iterdir()) == []
    assert list(folder.iterdir()) == []
    assert store.peek(REF) is None


def test_a_damaged_checkpoint_is_kept_aside_with_a_notice_and_its_item_starts_over(
    store: CheckpointStore, kind: Kind, folder: Path
) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    kind.damage(Path(store.address(REF)))
    damaged = Path(store.address(REF)).read_bytes()
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.open(REF)
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.answer(REF, ["sure?"], "yes")
    store.peek(REF)
    assert Path(store.address(REF)).read_bytes() == damaged
    opened = open_item(store, REF, {"text": "x"})
    opened.checkpoint.close()
    assert opened.initial_state == {"text": "x"}
    assert opened.notice.startswith("checkpoint is damaged (")
    (kept,) = folder.glob("*.damaged-*")
    assert f"set aside as {kept.name}, starting over" in opened.notice
    assert kept.read_bytes() == damaged
    assert store.items() == [REF]


def test_a_checkpoint_of_another_version_is_kept_aside_whole(
    store: CheckpointStore, kind: Kind, folder: Path
) -> None:
    run(store, Story().chain("one"))
    kind.make_outdated(Path(store.address(REF)))
    with pytest.raises(CheckpointUnusable, match="checkpoint is outdated \\(made by another version"):
        store.open(REF)
    name = store.keep_aside(REF, "outdated")
    assert name.startswith(f"{Path(store.address(REF)).name}.outdated-")
    assert (folder / name).exists()
    assert (store.exists(REF), store.items()) == (False, [])


def test_whether_a_checkpoint_can_be_kept_is_tried(store: CheckpointStore) -> None:
    assert not store.can_keep(REF)  # There is no folder to write to yet.
    store.open(REF).close()
    assert store.can_keep(REF)


# A kill between the two writes of a store: what it resumes from, and what it shows.


def kill(kind: Kind, folder: Path, deed: str, at: Any) -> None:
    """In a process of its own that dies after the commit that makes this true and before it is shown."""
    victim = Path(__file__).with_name("checkpoint_victim.py")
    done = subprocess.run(
        [sys.executable, str(victim), kind.name, str(folder), deed, at], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_a_kill_between_a_nodes_commit_and_its_record_reruns_nothing(
    store: CheckpointStore, kind: Kind, folder: Path, node: str
) -> None:
    names = ["n1", "n2", "n3"]
    kill(kind, folder, "run", f'"resumes_after": "{node}"')
    done = names[: names.index(node) + 1]
    # Shown: one node behind, never ahead.
    assert peeked(store).resumes_after == ([None, *names][names.index(node)])
    with closing(store.open(REF)) as checkpoint:
        assert checkpoint.standing == Standing(node, HASH, is_untouched=False, steps=names.index(node) + 2)
        # Opening it brings what is shown up to date.
        assert peeked(store) == checkpoint.standing
    story = Story()
    assert run(store, story.chain(*names)).trail == names
    assert story.ran == names[len(done) :]


def test_a_kill_before_anything_is_shown_leaves_a_checkpoint_that_says_nothing(
    store: CheckpointStore, kind: Kind, folder: Path
) -> None:
    kill(kind, folder, "run", HASH)
    assert peeked(store) == Standing()
    story = Story()
    assert run(store, story.chain("n1")).trail == ["n1"]


def test_a_kill_between_a_question_and_its_record_asks_again_without_a_node(
    store: CheckpointStore, kind: Kind, folder: Path
) -> None:
    kill(kind, folder, "ask", '"questions": ["sure?"]')
    assert peeked(store).questions is None
    with closing(store.open(REF)) as checkpoint:
        assert checkpoint.standing.questions == ["sure?"]
    assert peeked(store).questions == ["sure?"]


def test_a_kill_between_an_answer_and_its_record_loses_no_answer(
    store: CheckpointStore, kind: Kind, folder: Path
) -> None:
    graph = Story({"n2": ask("sure?")}).chain("n1", "n2", "n3")
    run(store, graph)
    kill(kind, folder, "answer", '"answer": "yes"')
    assert peeked(store).answer is None
    assert run(store, graph).trail == ["n1", "n2", "yes", "n3"]


def test_a_lost_record_is_made_again(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    with monkeypatch.context() as lost:
        lost.setattr(record, "read", lambda _path: None)
        assert peeked(store) == Standing()
    story.deeds = {}
    assert run(store, story.chain("one", "two")).trail == ["one", "two"]
    assert peeked(store).resumes_after == "two"
