"""Every checkpoint store keeps the same promises: to the worker that opens it, and to whoever only looks."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from checkpoint_benches import Bench, PostgresBench, SqliteBench
from checkpoint_graphs import REF, Story, ask, fail, run

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.opening import InputChanged, open_item
from agentos.engine.checkpoints.protocol import CheckpointStore, CheckpointUnusable, ItemRef, NotAsking, Standing
from agentos.engine.plan import input_hash
from agentos.keys.redaction import Redactor

HASH = input_hash({"text": "x"})
SECRET = "SENTINEL-alpha-Zq81+/kd"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sqlite":
        yield SqliteBench(tmp_path)
        return
    with closing(PostgresBench(tmp_path, request.getfixturevalue("postgres").url)) as made:
        yield made


@pytest.fixture
def store(bench: Bench) -> CheckpointStore:
    return bench.store


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteBench:
    return SqliteBench(tmp_path)


def peeked(bench: Bench) -> Standing:
    """What it says, after proof that looking changes nothing."""
    before = bench.all_kept()
    found = bench.store.peek(REF)
    assert bench.all_kept() == before
    assert found is not None
    return found


# Nothing there.


def test_before_an_item_starts_looking_finds_and_makes_nothing(bench: Bench) -> None:
    store = bench.store
    assert store.peek(REF) is None
    assert (store.items(), store.exists(REF), store.output_paths(REF)) == ([], False, [])
    store.remove(REF)
    assert bench.all_kept() == {}


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
def test_an_item_is_looked_at_after_each_of_its_nodes(bench: Bench, store: CheckpointStore, how: str) -> None:
    seen: list[Standing] = []
    story = Story(dict.fromkeys(("one", "two", "three"), lambda: seen.append(peeked(bench))))
    assert run(store, story.chain("one", "two", "three", make=getattr(story, how))).trail == ["one", "two", "three"]
    assert seen == [
        # Two steps are LangGraph's own: it takes the input.
        Standing(input_hash=HASH, steps=2),
        Standing("one", HASH, is_untouched=False, steps=3),
        Standing("two", HASH, is_untouched=False, steps=4),
    ]
    assert peeked(bench) == Standing("three", HASH, is_untouched=False, steps=5)


def test_an_item_resumes_after_its_last_finished_node(bench: Bench, store: CheckpointStore) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two", "three"))
    assert peeked(bench).resumes_after == "one"
    story.deeds = {}
    assert run(store, story.chain("one", "two", "three")).trail == ["one", "two", "three"]
    assert story.ran == ["one", "two", "two", "three"]


def test_a_finished_item_that_nobody_removed_runs_no_node_again(store: CheckpointStore) -> None:
    story = Story()
    run(store, story.chain("one"))
    assert run(store, story.chain("one")).trail == ["one"]
    assert story.ran == ["one"]


def test_a_node_finished_in_an_unfinished_step_counts(bench: Bench, store: CheckpointStore) -> None:
    story = Story({"right": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.side_by_side())
    assert peeked(bench).resumes_after == "left"
    story.deeds = {}
    run(store, story.side_by_side())
    assert sorted(story.ran) == ["first", "left", "right", "right"]


def test_nodes_of_subgraphs_are_saved_and_named_by_their_way_from_the_top(
    bench: Bench, store: CheckpointStore
) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.nested())
    assert peeked(bench).resumes_after == "inside.one"
    story.deeds = {}
    run(store, story.nested())
    assert story.ran == ["before", "one", "two", "two", "after"]
    assert peeked(bench).resumes_after == "after"


def test_nodes_that_were_sent_are_named(bench: Bench, store: CheckpointStore) -> None:
    story = Story({"join": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.sent())
    assert peeked(bench).resumes_after == "work"


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


def test_no_key_is_kept(bench: Bench, store: CheckpointStore) -> None:
    with closing(store.open(REF)) as checkpoint:
        checkpoint.redactor = Redactor([SECRET])
        checkpoint.begin(HASH)
        checkpoint.put("fact", f"with {SECRET}")
        checkpoint.keep_output(Path("a.md"), SECRET.encode())
        checkpoint.park([f"is {SECRET} right?"])
    assert peeked(bench).questions != [f"is {SECRET} right?"]
    assert not [name for name, content in bench.all_kept().items() if SECRET.encode() in content]


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
def test_a_changed_input_is_taken_while_no_node_has_left_anything(
    bench: Bench, store: CheckpointStore, shape: str
) -> None:
    story = Story({"one": fail})
    graph = story.chain("one")
    if shape == "nested":
        inner = graph.compile()
        graph = story.chain("inside", make=lambda _name: inner)
    with pytest.raises(RuntimeError, match="sour"):
        run(store, graph)
    assert peeked(bench).is_untouched
    opened = open_item(store, REF, {"text": "y"})
    assert (opened.initial_state, opened.checkpoint.has_steps) == ({"text": "y"}, False)
    assert "nothing was done with the old one" in opened.notice
    assert opened.checkpoint.standing == Standing(input_hash=input_hash({"text": "y"}))
    opened.checkpoint.close()


# A person's answer.


def test_a_parked_item_asks_takes_an_answer_and_continues_with_it(bench: Bench, store: CheckpointStore) -> None:
    story = Story({"two": ask("sure?")})
    graph = story.chain("one", "two", "three")
    assert run(store, graph).questions == ["sure?"]
    asking = peeked(bench)
    assert len(asking.interrupt_ids or ()) == 1
    ids = asking.interrupt_ids
    assert asking == Standing("one", HASH, questions=["sure?"], interrupt_ids=ids, is_untouched=False, steps=3)
    store.answer(REF, ["sure?"], "no")
    store.answer(REF, ["sure?"], {"sure": True})
    assert (peeked(bench).questions, peeked(bench).answer) == (["sure?"], {"sure": True})
    assert run(store, graph).trail == ["one", "two", "{'sure': True}", "three"]
    assert (peeked(bench).questions, peeked(bench).answer) == (None, None)


def test_an_answer_is_kept_until_the_item_has_continued(bench: Bench, store: CheckpointStore) -> None:
    story = Story({"two": ask("sure?")})
    run(store, story.chain("one", "two"))
    store.answer(REF, ["sure?"], "yes")
    story.deeds = {"two": fail}
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    assert peeked(bench).answer == "yes"
    story.deeds = {"two": ask("sure?")}
    assert run(store, story.chain("one", "two")).trail == ["one", "two", "yes"]


def test_an_answer_is_not_taken_for_the_next_question_of_the_same_node(bench: Bench, store: CheckpointStore) -> None:
    graph = Story({"two": ask("first?", "second?")}).chain("one", "two")
    run(store, graph)
    store.answer(REF, ["first?"], "yes")
    assert run(store, graph).questions == ["second?"]
    assert (peeked(bench).questions, peeked(bench).answer) == (["second?"], None)
    store.answer(REF, ["second?"], "no")
    assert run(store, graph).trail == ["one", "two", "yes no"]


def test_nor_when_the_worker_dies_before_it_could_say_what_it_asks(bench: Bench, store: CheckpointStore) -> None:
    graph = Story({"two": ask("first?", "second?")}).chain("one", "two")
    run(store, graph)
    store.answer(REF, ["first?"], "yes")
    assert run(store, graph, park=False).questions == ["second?"]
    assert (peeked(bench).questions, peeked(bench).answer) == (["second?"], None)


def test_an_answer_to_something_else_is_refused(bench: Bench, store: CheckpointStore) -> None:
    with pytest.raises(NotAsking):
        store.answer(REF, ["sure?"], "yes")
    assert not store.exists(REF)
    run(store, Story({"two": ask("sure?")}).chain("one", "two"))
    with pytest.raises(NotAsking):
        store.answer(REF, ["really?"], "yes")
    assert peeked(bench).answer is None


# Removing and keeping aside.


def test_removing_leaves_nothing_even_while_it_is_open(bench: Bench, store: CheckpointStore) -> None:
    with closing(store.open(REF)) as checkpoint:
        checkpoint.begin(HASH)
        store.remove(REF)
        store.remove(REF)
        assert bench.all_kept() == {}
    assert bench.all_kept() == {}
    assert store.peek(REF) is None


def test_a_damaged_checkpoint_is_kept_aside_with_a_notice_and_its_item_starts_over(
    bench: Bench, store: CheckpointStore
) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(store, story.chain("one", "two"))
    bench.damage()
    damaged = bench.all_kept()
    with pytest.raises(CheckpointUnusable, match="checkpoint is damaged"):
        store.open(REF)
    store.peek(REF)
    assert bench.all_kept() == damaged
    opened = open_item(store, REF, {"text": "x"})
    opened.checkpoint.close()
    assert opened.initial_state == {"text": "x"}
    assert opened.notice.startswith("checkpoint is damaged (")
    (kept,) = bench.set_aside()
    assert f"set aside as {kept}, starting over" in opened.notice
    assert "damaged-" in kept
    assert store.items() == [REF]


def test_a_checkpoint_of_another_version_is_kept_aside_whole(bench: Bench, store: CheckpointStore) -> None:
    run(store, Story().chain("one"))
    bench.make_outdated()
    with pytest.raises(CheckpointUnusable, match="checkpoint is outdated \\(made by another version"):
        store.open(REF)
    name = store.keep_aside(REF, "outdated")
    assert ("outdated-" in name, bench.set_aside()) == (True, [name])
    assert (store.exists(REF), store.items()) == (False, [])


def test_whether_a_checkpoint_can_be_kept_is_tried(bench: Bench, store: CheckpointStore) -> None:
    store.open(REF).close()
    assert store.can_keep(REF)
    bench.break_it()
    assert not store.can_keep(REF)


# A kill between the two writes of SQLite's store: what it resumes from, and what it shows.


def kill(sqlite: SqliteBench, deed: str, at: Any) -> None:
    """In a process of its own that dies after the commit that makes this true and before it is shown."""
    victim = Path(__file__).with_name("checkpoint_victim.py")
    done = subprocess.run(
        [sys.executable, str(victim), str(sqlite.folder), deed, at], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_a_kill_between_a_nodes_commit_and_its_record_reruns_nothing(sqlite: SqliteBench, node: str) -> None:
    names = ["n1", "n2", "n3"]
    kill(sqlite, "run", f'"resumes_after": "{node}"')
    done = names[: names.index(node) + 1]
    # Shown: one node behind, never ahead.
    assert peeked(sqlite).resumes_after == ([None, *names][names.index(node)])
    with closing(sqlite.store.open(REF)) as checkpoint:
        assert checkpoint.standing == Standing(node, HASH, is_untouched=False, steps=names.index(node) + 2)
        # Opening it brings what is shown up to date.
        assert peeked(sqlite) == checkpoint.standing
    story = Story()
    assert run(sqlite.store, story.chain(*names)).trail == names
    assert story.ran == names[len(done) :]


def test_a_kill_before_anything_is_shown_leaves_a_checkpoint_that_says_nothing(sqlite: SqliteBench) -> None:
    kill(sqlite, "run", HASH)
    assert peeked(sqlite) == Standing()
    story = Story()
    assert run(sqlite.store, story.chain("n1")).trail == ["n1"]


def test_a_kill_between_a_question_and_its_record_asks_again_without_a_node(sqlite: SqliteBench) -> None:
    kill(sqlite, "ask", '"questions": ["sure?"]')
    assert peeked(sqlite).questions is None
    with closing(sqlite.store.open(REF)) as checkpoint:
        assert checkpoint.standing.questions == ["sure?"]
    assert peeked(sqlite).questions == ["sure?"]


def test_a_kill_between_an_answer_and_its_record_loses_no_answer(sqlite: SqliteBench) -> None:
    graph = Story({"n2": ask("sure?")}).chain("n1", "n2", "n3")
    run(sqlite.store, graph)
    kill(sqlite, "answer", '"answer": "yes"')
    assert peeked(sqlite).answer is None
    assert run(sqlite.store, graph).trail == ["n1", "n2", "yes", "n3"]


def test_a_lost_record_is_made_again(sqlite: SqliteBench, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story({"two": fail})
    with pytest.raises(RuntimeError, match="sour"):
        run(sqlite.store, story.chain("one", "two"))
    with monkeypatch.context() as lost:
        lost.setattr(record, "read", lambda _path: None)
        assert peeked(sqlite) == Standing()
    story.deeds = {}
    assert run(sqlite.store, story.chain("one", "two")).trail == ["one", "two"]
    assert peeked(sqlite).resumes_after == "two"
