"""States follow the events of a run, and nothing stays in a run's hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentos.engine.item_end import Hold
from agentos.engine.plan import make_plan
from agentos.errors import ExitCode
from agentos.events import ItemEnded, ItemStarted, NodeStarted, RunEnded
from agentos.files import LockBusyError
from agentos.git.worktrees import Repository
from agentos.launch.launcher import RunResult
from agentos.launch.request import RunRequest
from agentos.outcomes import (
    APPROVED,
    AS_ASKED,
    AWAITING_REVIEW,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    NEEDS_REVISION,
    PAUSED,
    SKIPPED,
    Outcome,
)
from agentos.settings import Settings
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


Scene = Callable[[WorkstreamRun], ExitCode]
"""What happens while the engine runs, and what it makes of it."""


@dataclass
class Played:
    """Stands in for the engine."""

    scene: Callable[[], ExitCode]
    run_id: str = "run1"

    def run(self) -> RunResult:
        return RunResult(exit_code=self.scene(), run_dir=Path())


def perform(registry: Registry, repository: Repository, scene: Scene, **choices: Any) -> ExitCode:
    run = WorkstreamRun(
        registry, repository, ["a", "b"], launch=lambda request, listen: Played(lambda: scene(run)), **choices
    )
    here = Path()
    return run.run(
        RunRequest(
            plan=make_plan([]),
            workflow="w",
            graph="m:graph",
            project_dir=here,
            search_dir=here,
            settings=Settings(),
            environment={},
        )
    )


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
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        assert state(registry) == Running("run1", this_process())
        run.listen(ended("a", outcome, "why"))
        assert state(registry) == after
        runs.append(run)
        return ExitCode.ITEM_FAILED

    runs: list[WorkstreamRun] = []
    perform(registry, repository, scene, completes=completes)
    result, untouched = runs[0].results()
    assert (result.outcome, result.exit_code, result.input_tokens, result.cost_usd) == (outcome, exit_code, 3, 0.5)
    assert result.log_path is not None
    assert result.log_path.parent.name == "run1"
    assert (untouched.outcome, untouched.exit_code, untouched.as_json()["started"]) == (INTERRUPTED, 130, None)


def test_a_wish_to_pause_holds_the_next_node_and_is_remembered(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        assert run.hold("a", "n1") is None
        with registry.change() as changes:
            changes.apply("a", Pause())
        assert run.hold("a", "n2") == Hold("before n2")
        run.listen(ended("a", PAUSED, "before n2"))
        assert state(registry) == Paused("n2")
        return ExitCode.NEEDS_ATTENTION

    assert perform(registry, repository, scene) is ExitCode.NEEDS_ATTENTION


@pytest.mark.parametrize(("request_", "words"), [(Pause(), "it is paused"), (Complete(), "it is completed")])
def test_one_that_changed_before_its_turn_is_held_and_left_as_it_is(
    registry: Registry, repository: Repository, request_: Pause | Complete, words: str
) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        with registry.change() as changes:
            changes.apply("a", request_)
        before = state(registry)
        run.listen(started("a"))
        held = run.hold("a", "n1")
        assert held is not None
        assert (words in held.reason, held.is_as_asked) == (True, False)
        run.listen(ended("a", PAUSED, words))
        assert state(registry) == before
        return ExitCode.NEEDS_ATTENTION

    assert perform(registry, repository, scene) is ExitCode.NEEDS_ATTENTION


def test_the_end_of_the_chosen_steps_is_a_good_end(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        assert run.hold("a", "n1") is None
        run.listen(NodeStarted(item_id="a", node="n1"))
        assert run.hold("a", "n2") == Hold("before n2, which is not among the chosen steps", is_as_asked=True)
        run.listen(ended("a", AS_ASKED, "before n2"))
        assert state(registry) == Active()
        assert run.results()[0].exit_code is ExitCode.OK
        return ExitCode.OK

    assert perform(registry, repository, scene, nodes=["n1"]) is ExitCode.OK


def test_steps_that_let_nothing_start_are_no_good_end(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        assert run.hold("a", "n1") == Hold("before n1, which is not among the chosen steps")
        return ExitCode.NEEDS_ATTENTION

    assert perform(registry, repository, scene, nodes=["n2"]) is ExitCode.NEEDS_ATTENTION


def test_one_that_fails_before_it_is_opened_is_failed(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(ended("a", FAILED, "the input has changed"))
        return ExitCode.ITEM_FAILED

    perform(registry, repository, scene)
    assert state(registry) == Failed("the input has changed")


def test_skipped_and_other_events_change_nothing(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(ended("a", SKIPPED, "dependency b failed"))
        run.listen(RunEnded(counts={}, left=(), wall_seconds=0, item_seconds=0, exit_code=0))
        assert state(registry) == Active()
        assert run.results()[0].exit_code == 1
        return ExitCode.ITEM_FAILED

    perform(registry, repository, scene)


def test_what_could_not_be_written_at_its_time_is_written_at_the_end(
    registry: Registry, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy() -> Any:
        raise LockBusyError("held by another")

    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        with monkeypatch.context() as patched:
            patched.setattr(registry, "change", busy)
            run.listen(ended("a", COMPLETED))
        assert isinstance(state(registry), Running)
        return ExitCode.OK

    perform(registry, repository, scene)
    assert state(registry) == Completed()


def test_whatever_a_run_still_holds_at_its_end_is_let_go(registry: Registry, repository: Repository) -> None:
    def scene(run: WorkstreamRun) -> ExitCode:
        run.listen(started("a"))
        with registry.change() as changes:
            changes.apply("b", TakeUp("another", this_process()))
        return ExitCode.INTERRUPTED

    perform(registry, repository, scene)
    assert state(registry) == Active()
    assert state(registry, "b") == Running("another", this_process())


def test_a_registry_that_cannot_be_read_pauses_nobody(registry: Registry, repository: Repository) -> None:
    run = WorkstreamRun(registry, repository, ["a"])
    (registry.directory / "registry.json").write_text("{")
    assert run.hold("a", "n1") is None
