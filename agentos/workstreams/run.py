"""One run over workstreams: moves their states with their items, holds those to be paused, keeps the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentos.clock import stamp
from agentos.engine.item_end import Hold
from agentos.errors import AgentosError, ExitCode
from agentos.events import Event, ItemEnded, ItemStarted, Listener, NodeStarted
from agentos.git.worktrees import Repository, branch_of
from agentos.outcomes import INTERRUPTED, PAUSED, REHEARSED, Outcome, item_exit_code
from agentos.paths import runs_dir
from agentos.reporters.logs import log_name
from agentos.workstreams.registry import Registry, this_process
from agentos.workstreams.state import (
    Complete,
    Fail,
    InvalidTransitionError,
    ReachPause,
    Release,
    Request,
    Running,
    TakeUp,
)

if TYPE_CHECKING:
    from agentos.launch.launcher import RunResult
    from agentos.launch.request import RunRequest


class Launch(Protocol):
    """One run of the engine."""

    run_id: str
    """Known before the first event."""

    def run(self) -> RunResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkstreamResult:
    """How one workstream fared in a run."""

    slug: str
    outcome: Outcome = INTERRUPTED
    """Interrupted until it has ended: also if the run does not come to it."""
    exit_code: ExitCode = ExitCode.INTERRUPTED
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    log_path: Path | None = None
    branch: str = ""
    head: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds() if self.started and self.ended else 0.0

    def as_json(self) -> dict[str, Any]:
        """One line of `ws run --json`."""
        return {
            "type": "workstream_result",
            "slug": self.slug,
            "status": self.outcome.name,
            "exit_code": int(self.exit_code),
            "started": stamp(self.started, "microseconds") if self.started else None,
            "ended": stamp(self.ended, "microseconds") if self.ended else None,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "log_path": str(self.log_path) if self.log_path else None,
            "branch": self.branch,
            "head": self.head,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        }


def _engine(request: RunRequest, listener: Listener) -> Launch:
    from agentos.launch.launcher import Launcher  # noqa: PLC0415  Looking at workstreams needs no engine.

    return Launcher(request, listener)


class WorkstreamRun:
    """The workstreams of one run. All of it happens on the run's own loop; the registry's lock guards the states."""

    def __init__(
        self,
        registry: Registry,
        repository: Repository,
        slugs: Sequence[str],
        *,
        nodes: Collection[str] = (),
        completes: bool = True,
        launch: Callable[[RunRequest, Listener], Launch] | None = None,
    ) -> None:
        """With `nodes`, no other node starts. Without `completes`, a good end leaves a workstream active.

        `launch` makes what carries the run out; by default the engine's.
        """
        self._registry = registry
        self._repository = repository
        self._slugs = tuple(slugs)
        self._nodes = frozenset(nodes)
        self._completes = completes
        self._launch = launch or _engine
        self._launched: Launch | None = None
        self._results: dict[str, WorkstreamResult] = {}
        self._refused: dict[str, str] = {}
        """Workstreams that somebody paused, completed or took between our plan and their turn, and why."""
        self._held_before: dict[str, str] = {}
        """The node at which a workstream was held."""
        self._moved: set[str] = set()
        """Workstreams of which at least one node has started, in this run or before."""
        self._unsaved: list[tuple[str, Request]] = []
        """Transitions that could not be written at their time; the end of the run tries again."""

    @property
    def run_id(self) -> str:
        return self._launched.run_id if self._launched is not None else ""

    def run(self, request: RunRequest, listener: Listener | None = None) -> ExitCode:
        """Carry the run out. When this returns or raises, no workstream is in this run's hands any more."""

        def listen(event: Event) -> None:
            self.listen(event)
            if listener is not None:
                listener(event)

        self._launched = self._launch(replace(request, hold_node=self.hold), listen)
        try:
            return self._launched.run().exit_code
        finally:
            self._let_go()

    def results(self) -> tuple[WorkstreamResult, ...]:
        """One for each workstream, in the order they were given."""
        return tuple(self._with_head(self._results.get(slug) or WorkstreamResult(slug=slug)) for slug in self._slugs)

    def hold(self, slug: str, node: str) -> Hold | None:
        """Why a node must not start: asked by the engine before each one."""
        if slug in self._refused:
            return Hold(self._refused[slug])
        if self._is_pause_wanted(slug):
            self._held_before[slug] = node
            return Hold(f"before {node}")
        if self._nodes and node not in self._nodes:
            # Stopping where the chosen steps end is what the user asked for; not having started at all is not.
            return Hold(f"before {node}, which is not among the chosen steps", is_as_asked=slug in self._moved)
        return None

    def listen(self, event: Event) -> None:
        """Follow the run's events."""
        match event:
            case ItemStarted(item_id=slug, resumed_after=node):
                self._note_start(slug)
                if node is not None:
                    self._moved.add(slug)
            case NodeStarted(item_id=slug):
                self._moved.add(slug)
            case ItemEnded():
                self._note_end(event)

    def _note_start(self, slug: str) -> None:
        if slug in self._results:
            return
        self._results[slug] = WorkstreamResult(slug=slug, started=datetime.now(UTC))
        try:
            self._move(slug, TakeUp(self.run_id, this_process()))
        except InvalidTransitionError as obstacle:
            self._refused[slug] = str(obstacle)

    def _note_end(self, ended: ItemEnded) -> None:
        if not (ended.outcome.never_ran or ended.outcome.is_left):
            self._note_start(ended.item_id)  # A worker may fail before it has opened its item.
        known = self._results.get(ended.item_id)
        exit_code = item_exit_code(ended.outcome, ended.cause)
        self._results[ended.item_id] = WorkstreamResult(
            slug=ended.item_id,
            outcome=ended.outcome,
            exit_code=exit_code,
            started=known.started if known else None,
            ended=datetime.now(UTC),
            error="" if ended.outcome.is_done else ended.reason,
            log_path=runs_dir() / self.run_id / log_name(ended.item_id) if known else None,
            input_tokens=ended.input_tokens,
            output_tokens=ended.output_tokens,
            cost_usd=ended.cost_usd,
        )
        if known is not None and ended.item_id not in self._refused:
            self._move(ended.item_id, self._transition(ended))

    def _transition(self, ended: ItemEnded) -> Request:
        outcome = ended.outcome
        if outcome.is_failure:
            return Fail(self.run_id, ended.reason or ended.error_type or "no reason was given")
        if outcome == PAUSED and ended.item_id in self._held_before:
            return ReachPause(self.run_id, self._held_before[ended.item_id])
        if outcome.is_unfinished:
            return Release(self.run_id)
        if outcome.needs_person:
            return Fail(self.run_id, f"{outcome.in_words()}: {ended.reason}".removesuffix(": "))
        # A rehearsal leaves the workstream where it is: its work is still to be done.
        is_complete = self._completes and outcome != REHEARSED
        return Complete(self.run_id) if is_complete else Release(self.run_id)

    def _move(self, slug: str, request: Request) -> None:
        try:
            with self._registry.change() as changes:
                changes.apply(slug, request)
        except InvalidTransitionError:
            raise
        except (AgentosError, OSError):
            # The registry is busy or its disk is full: the run continues, and its end tries once more.
            self._unsaved.append((slug, request))

    def _is_pause_wanted(self, slug: str) -> bool:
        try:
            state = self._registry.workstreams()[slug].state
        except (AgentosError, OSError, KeyError):
            return False
        return isinstance(state, Running) and state.run_id == self.run_id and state.pause_requested

    def _let_go(self) -> None:
        """Write what could not be written before, and release whatever the run still holds."""
        with self._registry.change() as changes:
            for slug, request in self._unsaved:
                with suppress(AgentosError):
                    changes.apply(slug, request)
            for slug, workstream in list(changes.workstreams.items()):
                state = workstream.state
                if isinstance(state, Running) and state.run_id == self.run_id:
                    changes.apply(slug, Release(self.run_id))

    def _with_head(self, result: WorkstreamResult) -> WorkstreamResult:
        branch = branch_of(result.slug)
        with suppress(AgentosError):
            result = replace(result, head=self._repository.git.resolve(f"refs/heads/{branch}") or "")
        return replace(result, branch=branch)
