"""States follow the events of a run, and nothing stays in a run's hands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentos.errors import ExitCode
from agentos.events import ItemEnded, ItemStarted, NodeStarted, RunEnded
from agentos.files import LockBusyError
from agentos.git.worktrees import Repository
from agentos.outcomes import (
    APPROVED,
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    NEEDS_REVISION,
    PAUSED,
    SKIPPED,
    Outcome,
)
from agentos.workstreams.registry import Registry, this_process
from agentos.workstreams.run import WorkstreamRun
from agentos.workstreams.state import (
    Active,
    Complete,
    Completed,
    Failed,
    Pause,
    Paused,
    Running,
    TakeUp,
    Workstream,
)


@pytest.fixture
def registry(project: Path, repository: Repository) -> Registry:
    made = Registry(project)
    with made.change() as changes:
        for slug in "ab":
            changes.add(slug, f"do {slug}", path=repository.path_for(slug), base="main")
    return made


def make_run(registry: Registry, repository: Repository, **choices: Any) -> WorkstreamRun:
    run = WorkstreamRun(registry, repository, ["a", "b"], **choices)
    run._launcher = cast(Any, SimpleNamespace(run_id="run1"))
    return run


def started(slug: str) -> ItemStarted:
    return ItemStarted(item_id=slug, attempt=1, pid=1)


def ended(slug: str, outcome: Outcome, reason: str = "") -> ItemEnded:
    return ItemEnded(item_id=slug, outcome=outcome, seconds=1.0, reason=reason, input_tokens=3, cost_usd=0.5)


def state(registry: Registry, slug: str = "a") -> object:
    workstreams: dict[str, Workstream] = dict(registry.workstreams())
    return workstreams[slug].state


@pytest.mark.parametrize(
    ("outcome", "completes", "after", "exit_code"),
    [
        (APPROVED, True, Completed(), 0),
        (APPROVED, False, Active(), 0),
        (FAILED, True, Failed("why"), 1),
        (NEEDS_REVISION, True, Failed("needs revision: why"), 3),
        (AWAITING_REVIEW, True, Active(), 3),
        (INTERRUPTED, True, Active(), 130),
    ],
)
def test_an_outcome_decides_the_state(
    registry: Registry, repository: Repository, outcome: Outcome, completes: bool, after: object, exit_code: int
) -> None:
    run = make_run(registry, repository, completes=completes)
    run.listen(started("a"))
    assert state(registry) == Running("run1", this_process())
    run.listen(ended("a", outcome, "why"))
    assert state(registry) == after
    result, untouched = run.results()
    assert (result.outcome, result.exit_code, result.input_tokens, result.cost_usd) == (outcome, exit_code, 3, 0.5)
    assert result.log_path is not None
    assert result.log_path.parent.name == "run1"
    assert (untouched.outcome, untouched.exit_code, untouched.as_json()["started"]) == (INTERRUPTED, 130, None)


def test_a_wish_to_pause_holds_the_next_node_and_is_remembered(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository)
    run.listen(started("a"))
    assert run.hold("a", "n1") == ""
    with registry.change() as changes:
        changes.apply("a", Pause())
    assert run.hold("a", "n2") == "before n2"
    run.listen(ended("a", PAUSED, "before n2"))
    assert state(registry) == Paused("n2")
    assert run._judge(ExitCode.NEEDS_ATTENTION) is ExitCode.NEEDS_ATTENTION


@pytest.mark.parametrize(("request_", "words"), [(Pause(), "it is paused"), (Complete(), "it is completed")])
def test_one_that_changed_before_its_turn_is_held_and_left_as_it_is(
    registry: Registry, repository: Repository, request_: Pause | Complete, words: str
) -> None:
    run = make_run(registry, repository)
    with registry.change() as changes:
        changes.apply("a", request_)
    before = state(registry)
    run.listen(started("a"))
    assert words in run.hold("a", "n1")
    run.listen(ended("a", PAUSED, words))
    assert state(registry) == before
    assert run._judge(ExitCode.NEEDS_ATTENTION) is ExitCode.NEEDS_ATTENTION


def test_the_end_of_the_chosen_steps_is_a_good_end(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository, nodes=["n1"])
    run.listen(started("a"))
    assert run.hold("a", "n1") == ""
    run.listen(NodeStarted(item_id="a", node="n1"))
    assert "not among the chosen steps" in run.hold("a", "n2")
    run.listen(ended("a", PAUSED, "before n2"))
    assert state(registry) == Active()
    assert run._judge(ExitCode.NEEDS_ATTENTION) is ExitCode.OK
    assert run._judge(ExitCode.ITEM_FAILED) is ExitCode.ITEM_FAILED


def test_steps_that_let_nothing_start_are_no_good_end(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository, nodes=["n2"])
    run.listen(started("a"))
    run.listen(ended("a", PAUSED, run.hold("a", "n1")))
    assert run._judge(ExitCode.NEEDS_ATTENTION) is ExitCode.NEEDS_ATTENTION


def test_one_that_fails_before_it_is_opened_is_failed(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository)
    run.listen(ended("a", FAILED, "the input has changed"))
    assert state(registry) == Failed("the input has changed")


def test_skipped_and_other_events_change_nothing(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository)
    run.listen(ended("a", SKIPPED, "dependency b failed"))
    run.listen(RunEnded(counts={}, left=(), wall_seconds=0, item_seconds=0, exit_code=0))
    assert state(registry) == Active()
    assert run.results()[0].exit_code == 1


def test_what_could_not_be_written_at_its_time_is_written_at_the_end(
    registry: Registry, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(registry, repository)
    run.listen(started("a"))

    def busy() -> Any:
        raise LockBusyError("held by another")

    with monkeypatch.context() as patched:
        patched.setattr(registry, "change", busy)
        run.listen(ended("a", COMPLETED))
    assert isinstance(state(registry), Running)
    run._let_go()
    assert state(registry) == Completed()


def test_whatever_a_run_still_holds_at_its_end_is_let_go(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository)
    run.listen(started("a"))
    with registry.change() as changes:
        changes.apply("b", TakeUp("another", this_process()))
    run._let_go()
    assert state(registry) == Active()
    assert state(registry, "b") == Running("another", this_process())


def test_a_registry_that_cannot_be_read_pauses_nobody(registry: Registry, repository: Repository) -> None:
    run = make_run(registry, repository)
    (registry.directory / "registry.json").write_text("{")
    assert run.hold("a", "n1") == ""
