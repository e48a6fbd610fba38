"""How items end: what is on disk before it is on record, what a surprise makes of an item, what ends the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from agentos.engine.backends.protocol import Backend
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import FileClaims, claim_name
from agentos.engine.documents import staged_path
from agentos.engine.done_notes import Done, FileNotes
from agentos.engine.item_run import ItemRun, hold_nothing
from agentos.engine.item_store import ItemStore
from agentos.engine.item_watch import TimeLimits
from agentos.engine.loop import Loop
from agentos.engine.messages import ItemDone, ItemFailed, ItemOpened
from agentos.engine.plan import Item, input_hash
from agentos.engine.results import Results
from agentos.engine.run_settings import RunSettings
from agentos.engine.schedule import Ending
from agentos.errors import ExitCode
from agentos.events import Event, ItemEnded, ItemRetried, RunEnded, RunStarted, Warned
from agentos.keys.redaction import Redactor
from agentos.outcomes import COMPLETED, FAILED, INTERRUPTED, SKIPPED, Cause

LIMITS = TimeLimits(timeout_seconds=60, stall_seconds=60, heartbeat_seconds=5)
SECRET = "sk-results-0123456789abcdef"
DONE = ItemDone(outcome="completed", reason="", finished=[], outputs=[])


class Bench:
    """Three items of one run over real files. `seen` is what was on disk when each event was told."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self.told: list[Event] = []
        self.faults: list[str] = []
        self.seen: list[tuple[bool, bool]] = []
        self.loop = Loop(lambda: 100.0)
        self.claims_path = root / "claims.lock"
        self.claims = FileClaims(self.claims_path)
        self.notes = FileNotes(self.project, "flow")
        self.settings = RunSettings(run_id="run-2", workflow="flow", project_dir=self.project, time_limits=LIMITS)
        store = ItemStore(self.project, "flow", self.claims)
        self.address = store.checkpoint_address
        items = (Item(id="a", input={"title": f"Fines {SECRET}"}), Item(id="b"), Item(id="c"))
        self.retired: list[str] = []
        self.has_other_machines = True
        self.results = Results(
            self.settings,
            items,
            store,
            self._tell,
            Redactor([SECRET]),
            fault=self.faults.append,
            retire=self._retire,
        )

    def _retire(self, node: str, reason: str) -> bool:
        self.retired.append(f"{node}: {reason}")
        return self.has_other_machines

    def _tell(self, event: Event) -> None:
        self.told.append(event)
        self.seen.append((self.is_noted("a"), self.has_checkpoint("a")))

    def run_of(self, item_id: str, *said: Any, attempt: int = 1, other_machine: str = "") -> ItemRun:
        backend = Mock(spec=Backend)
        backend.is_elsewhere.return_value = bool(other_machine)
        backend.node_of.return_value = other_machine
        with closing(store_for(self.project).open(ItemRef("flow", item_id))):
            pass
        run = ItemRun(
            Item(id=item_id),
            attempt,
            backend,
            self.loop,
            lambda _event: None,
            limits=LIMITS,
            hold_node=hold_nothing,
            on_at_work=lambda: None,
            is_unread=lambda: False,
        )
        for message in (ItemOpened(resumed_after=None, pid=7), *said):
            run.take(message)
        return run

    def is_noted(self, item_id: str) -> bool:
        return self.notes.done(item_id, input_hash({})) is not None

    def has_checkpoint(self, item_id: str) -> bool:
        return store_for(self.project).exists(ItemRef("flow", item_id))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    made = Bench(tmp_path)
    yield made
    made.claims.close()
    made.loop.close()


def test_a_done_item_is_noted_before_its_end_is_on_record_and_keeps_its_checkpoint_until_then(bench: Bench) -> None:
    """A kill before the record leaves a note: the next run tells of the end, and this one has not told it twice."""
    assert bench.results.worker_gone(bench.run_of("a", DONE), 0) is Ending.DONE
    [end] = bench.told
    assert isinstance(end, ItemEnded)
    assert end.outcome is COMPLETED
    assert bench.seen == [(True, True)]
    assert not bench.has_checkpoint("a")


def test_documents_are_in_place_before_the_end_is_on_record_and_named_in_the_note(bench: Bench) -> None:
    document = str(bench.project / "a.md")
    staged_path(document, bench.address("a")).write_text("text")
    done = ItemDone(outcome="approved", reason="", finished=[], outputs=[document])
    bench.results.worker_gone(bench.run_of("a", done), 0)
    assert Path(document).read_text() == "text"
    noted = bench.notes.done("a", input_hash({}))
    assert noted is not None
    assert noted.documents == (document,)


def test_a_note_that_cannot_be_written_stops_the_run_and_keeps_the_finished_checkpoint(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileNotes, "mark_done", full_disk)
    assert bench.results.worker_gone(bench.run_of("a", DONE), 0) is Ending.DONE
    assert bench.faults == ["cannot note that a is done: No space left on device"]
    assert bench.has_checkpoint("a")


def test_a_checkpoint_that_cannot_be_removed_is_told_of_and_harms_nothing(bench: Bench) -> None:
    run = bench.run_of("a", DONE)
    Path(f"{bench.address('a')}-journal").mkdir()
    assert bench.results.worker_gone(run, 0) is Ending.DONE
    assert isinstance(bench.told[-1], Warned)
    assert "a: cannot remove its checkpoint" in bench.told[-1].text
    assert bench.faults == []


def test_a_failed_item_keeps_its_checkpoint_and_nobody_sees_a_key(bench: Bench) -> None:
    failed = ItemFailed(error_type="E", message=f"bad {SECRET}", traceback=SECRET, finished=[])
    assert bench.results.worker_gone(bench.run_of("a", failed), 1) is Ending.NOT_DONE
    [end] = bench.told
    assert isinstance(end, ItemEnded)
    assert SECRET not in end.reason + end.traceback
    assert bench.has_checkpoint("a")
    assert not bench.is_noted("a")


def test_a_surprise_fails_its_item_with_what_it_was(bench: Bench) -> None:
    assert bench.results.surprised(bench.run_of("a", DONE), ValueError("embedded null byte")) is Ending.NOT_DONE
    [end] = bench.told
    assert isinstance(end, ItemEnded)
    assert end.outcome is FAILED
    assert end.reason == "AgentOS failed on this item: ValueError: embedded null byte"
    assert "ValueError" in end.traceback
    assert bench.claims.take(claim_name("flow", "a"))


def test_a_surprise_after_the_end_is_on_record_changes_nothing_of_it(bench: Bench) -> None:
    run = bench.run_of("a", DONE)
    bench.results.worker_gone(run, 0)
    assert bench.results.surprised(run, ValueError("late")) is Ending.DONE
    assert [type(event) for event in bench.told] == [ItemEnded, Warned]


def test_a_crash_with_attempts_left_is_no_end(bench: Bench) -> None:
    assert bench.results.worker_gone(bench.run_of("a"), -9, may_retry=True) is Ending.CRASHED
    assert [type(event) for event in bench.told] == [ItemRetried]
    assert bench.results.worker_gone(bench.run_of("a", attempt=2), -9) is Ending.CRASHED
    assert [type(event) for event in bench.told] == [ItemRetried, ItemEnded]


UNWRITABLE = ItemFailed(
    error_type="StoreAway", message="does not answer", traceback="", finished=[], is_run_fault=True
)


def test_a_checkpoint_that_one_worker_here_cannot_write_is_its_items_fault(bench: Bench) -> None:
    assert bench.results.worker_gone(bench.run_of("a", UNWRITABLE), 1) is Ending.NOT_DONE
    assert (bench.retired, bench.faults) == ([], [])


def test_an_item_goes_on_elsewhere_when_its_machine_alone_cannot_write_checkpoints(bench: Bench) -> None:
    assert bench.results.worker_gone(bench.run_of("a", UNWRITABLE, other_machine="node-2"), 1) is Ending.LOST
    assert bench.retired == ["node-2: does not answer"]
    assert [type(event) for event in bench.told] == [ItemRetried]


def test_the_run_stops_when_no_other_machine_is_left_that_could_write_checkpoints(bench: Bench) -> None:
    bench.has_other_machines = False
    run = bench.run_of("a", UNWRITABLE, other_machine="node-2")
    assert bench.results.worker_gone(run, 1) is Ending.INTERRUPTED
    assert bench.faults == ["does not answer"]


def test_what_others_hold_and_what_is_done_is_told_at_the_beginning(bench: Bench) -> None:
    note = Done("hash", COMPLETED, "run-1")
    bench.results.begin({"b": "run run-0"}, {"a": note}, [Warned(text="careful")])
    started, warned, held, done = bench.told
    assert isinstance(started, RunStarted)
    assert isinstance(warned, Warned)
    assert isinstance(held, ItemEnded)
    assert (held.item_id, held.outcome, held.cause, held.reason) == ("b", SKIPPED, Cause.HELD, "held by run run-0")
    assert isinstance(done, ItemEnded)
    assert (done.item_id, done.cause, done.reason) == ("a", Cause.EARLIER_RUN, "in run run-1 already")


def test_items_are_wanted_again_together_or_not_at_all(bench: Bench) -> None:
    for item_id in ("a", "b"):
        bench.results.skipped_by(item_id, "not needed")
    with closing(FileClaims(bench.claims_path)) as another_run:
        assert another_run.take(claim_name("flow", "b"))
        assert bench.results.reopened(["a", "b"]) == "b"
        assert bench.results.outcome_of("a") == SKIPPED
        assert another_run.take(claim_name("flow", "a"))
    assert bench.results.reopened(["a", "b"]) is None
    assert bench.results.outcome_of("a") is bench.results.outcome_of("b") is None


def test_an_item_that_was_too_slow_to_end_is_left(bench: Bench) -> None:
    bench.results.given_up(bench.run_of("a"))
    [end] = bench.told
    assert isinstance(end, ItemEnded)
    assert end.outcome is INTERRUPTED


def test_a_batch_is_forgotten_after_its_end_is_on_record_and_only_when_nothing_is_left(bench: Bench) -> None:
    for item_id in ("a", "b"):
        bench.results.worker_gone(bench.run_of(item_id, DONE), 0)
    assert bench.results.finish(None, 1.0) is ExitCode.INTERRUPTED  # `c` has had no turn.
    assert bench.is_noted("a")
    bench.results.worker_gone(bench.run_of("c", DONE), 0)
    assert bench.results.finish(ExitCode.ITEM_FAILED, 1.0) is ExitCode.ITEM_FAILED
    assert bench.is_noted("a")
    bench.seen.clear()
    assert bench.results.finish(None, 1.0) is ExitCode.OK
    assert isinstance(bench.told[-1], RunEnded)
    assert bench.seen == [(True, False)]
    assert not bench.is_noted("a")


def test_the_start_says_what_items_are_about_without_secrets(bench: Bench) -> None:
    bench.results.begin({}, {}, ())
    (started,) = bench.told
    assert isinstance(started, RunStarted)
    assert started.titles == (f"Fines {'*' * len(SECRET)}", "", "")
