"""`ParallelCoordinator`: the engine for Python callers, over plain callables or over registered workflows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, TypedDict, TypeVar

from agentos.engine import limits
from agentos.engine.plan import make_plan
from agentos.engine.signals import signals_handled
from agentos.engine.stopping import GRACE
from agentos.engine.threads import CallEnd, NotCalledError, ThreadRun
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.events import Event, ItemEnded, ItemRetried, ItemStarted, Listener, Warned
from agentos.keys.faults import Credentials, with_faults
from agentos.outcomes import COMPLETED, INTERRUPTED, Outcome
from agentos.paths import find_project_dir
from agentos.settings import Settings, load_settings
from agentos.text.identifiers import sanitize_identifier
from agentos.text.output_prefixer import prefix_of
from agentos.text.thread_output import prefixed_output
from agentos.workflows.registry import Workflow, find_workflow

if TYPE_CHECKING:
    from agentos.workflows.parallel.given_keys import GivenKeys
    from agentos.workflows.parallel.run_items import RunItems

T = TypeVar("T")


class StopReason(Enum):
    """Why a run is stopped, in order of urgency."""

    REQUEST = "request"
    INTERRUPT = "interrupt"
    KILL = "kill"


class ParallelRunConfig(TypedDict):
    """A run of a registered workflow, or of any graph when `graph` names one (`MODULE:ATTR` or `PATH.py:ATTR`)."""

    max_parallelism: int
    dry_run: bool
    workflow_type: str
    pending_items: list[str]
    graph: NotRequired[str]
    inputs: NotRequired[dict[str, dict[str, Any]]]
    project_dir: NotRequired[str]


class ProgressReport(TypedDict):
    """Where a run of a `ParallelRunConfig` stands, or how it ended."""

    total: int
    completed: int
    failed: int
    in_progress: int
    pending: int
    failed_items: list[str]
    completed_items: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResult:
    """How one item ended."""

    item_id: str
    success: bool
    error: str | None = None
    error_type: str = ""
    traceback: str = ""
    duration_seconds: float = 0.0


@dataclass(slots=True)
class ProgressStats:
    """Counts of a run of callables."""

    total: int = 0
    success_count: int = 0
    failed: int = 0

    @property
    def completed(self) -> int:
        """Ended, well or not."""
        return self.success_count + self.failed


class ParallelCoordinator:
    """Runs items side by side. Usable off the main thread; signal handlers stand only around a run."""

    DEFAULT_PARALLELISM: ClassVar[int] = limits.DEFAULT_PARALLELISM
    MAX_PARALLELISM: ClassVar[int] = limits.MAX_PARALLELISM

    def __init__(
        self,
        max_workers: int | ParallelRunConfig = limits.DEFAULT_PARALLELISM,
        credential_coordinator: Any = None,
        *,
        on_event: Listener | None = None,
    ) -> None:
        """Takes a number of workers for `execute_parallel`, or a `ParallelRunConfig` for `run`."""
        self._on_event = on_event or _printing_listener()
        self.config = max_workers if isinstance(max_workers, dict) else None
        wanted = max_workers if self.config is None else self.config.get("max_parallelism", self.DEFAULT_PARALLELISM)
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise UsageError(f"max_workers must be a whole number of at least 1, got {wanted!r}.")
        self.max_workers = min(wanted, self.MAX_PARALLELISM)
        if wanted > self.MAX_PARALLELISM:
            self._emit(Warned(text=f"max_workers={wanted} is above the maximum; using {self.MAX_PARALLELISM}"))
        self._credentials: Credentials | None = credential_coordinator
        self._current: ThreadRun | None = None
        self._launcher: Any = None
        self._left: list[str] = []
        self._over = threading.Event()
        self._over.set()

    def execute_parallel(
        self,
        items: Iterable[T],
        worker_func: Callable[[T, str | None], object],
        item_id_func: Callable[[T], str],
        dry_run: bool = False,
    ) -> tuple[ProgressStats, list[WorkflowResult]]:
        """Call `worker_func(item, credential)` for each item. A stop lets running calls end and starts no other."""
        by_id = {sanitize_identifier(item_id_func(item)): item for item in items}
        if dry_run:
            _printing_listener().dry_run(by_id)
            return ProgressStats(total=len(by_id)), []
        credentials = with_faults(self._credentials, environment()) if self._credentials is not None else None

        def call(item_id: str, item: T) -> None:
            """On the item's thread: hold a credential, if there are any, for as long as the call lasts."""
            prefix = prefix_of(item_id)
            if credentials is None:
                with prefixed_output(prefix):
                    worker_func(item, None)
            else:
                with _held(credentials) as credential:
                    if run.is_stopping:
                        raise NotCalledError  # The key came too late: nothing new starts.
                    with prefixed_output(prefix):
                        worker_func(item, credential)

        run = ThreadRun({i: partial(call, i, item) for i, item in by_id.items()}, self.max_workers, self._emit)
        self._over.clear()
        self._current = run
        try:
            with signals_handled(lambda number: self._handle_shutdown_signal(number, None)):
                run.execute()
        finally:
            self._current = None
            self._over.set()
        self._left = run.left
        results = [_result(end) for end in run.ends]
        successes = sum(result.success for result in results)
        stats = ProgressStats(total=len(by_id), success_count=successes, failed=len(results) - successes)
        return stats, results

    def get_checkpoints(self) -> list[str]:
        """Items the last run left undone, in order."""
        return list(self._left)

    def run(self) -> ProgressReport:
        """Run the items of the `ParallelRunConfig` this coordinator was made with.

        Calls go with the keys of the `CredentialCoordinator`, if one was given, else with the user's own. Items whose
        document is there already count as completed. Raises UsageError for ids that the project does not have.
        """
        from agentos.workflows.parallel.run_items import find_run_items  # noqa: PLC0415  Only for those who use it.

        if self.config is None:
            raise UsageError("run() needs a ParallelCoordinator made with a ParallelRunConfig.")
        config = self.config
        project_dir = Path(config.get("project_dir") or find_project_dir(Path.cwd())).resolve()
        workflow = find_workflow(config["workflow_type"], config.get("graph"))
        settings = load_settings(project_dir)
        found = find_run_items(workflow, config["pending_items"], config.get("inputs", {}), project_dir, settings)
        report = _ReportBuilder(found.ids, found.done)
        if found.items and not config.get("dry_run", False):
            self._run_items(workflow, found, project_dir, settings, report)
        else:
            for warning in found.warnings:
                self._emit(Warned(text=warning))
        if config.get("dry_run", False):
            _printing_listener(workflow.label_prefix).dry_run(item.id for item in found.items)
        self._left = report.left
        return report.report()

    def _run_items(
        self, workflow: Workflow, found: RunItems, project_dir: Path, settings: Settings, report: _ReportBuilder
    ) -> None:
        # The process engine and its reporters load only for those who use it.
        from agentos.launch.launcher import Launcher  # noqa: PLC0415
        from agentos.workflows.run_request import request_for  # noqa: PLC0415

        with ExitStack() as cleanup:
            keys = self._take_keys(workflow, settings, cleanup)
            credentials = keys.credentials() if keys else None
            plan = make_plan(found.items)
            request = request_for(workflow, plan, project_dir, settings, environment(), credentials)
            request = replace(request, parallel=self.max_workers, is_quiet=True, warnings=found.warnings)

            def listen(event: Event) -> None:
                report.note(event)
                if keys:
                    keys.note(event)
                self._emit(event)

            self._over.clear()
            self._launcher = Launcher(request, listen)
            try:
                self._launcher.run()
            finally:
                self._launcher = None
                self._over.set()

    def _take_keys(self, workflow: Workflow, settings: Settings, cleanup: ExitStack) -> GivenKeys | None:
        """The keys of the caller's pool, until `cleanup` gives them back; None for the user's own."""
        from agentos.workflows.parallel.given_keys import provider_of_keys, taken_from  # noqa: PLC0415

        if self._credentials is None:
            return None
        provider = provider_of_keys(workflow, settings, environment())
        if provider:
            return cleanup.enter_context(taken_from(self._credentials, provider))
        if not workflow.models:
            self._emit(
                Warned(text="the keys given are not used: AGENTOS_MODEL does not say which provider they are for")
            )
        return None

    def shutdown(self, timeout_seconds: float = 5) -> None:
        """Stop the run under way and wait until it is over, or the time is up: then what still runs is killed."""
        self.request_stop(StopReason.REQUEST)
        if not self._over.wait(timeout_seconds):
            self.request_stop(StopReason.KILL)
            self._over.wait(GRACE.kill)

    def request_stop(self, reason: StopReason) -> None:
        """From any thread. Nothing new starts; an interrupt of a run that is stopping already is a kill.

        Does nothing when no run is under way.
        """
        run, launcher = self._current, self._launcher
        if run is not None:
            is_interrupt = reason is StopReason.INTERRUPT
            run.request_stop(reason.value, at_once=reason is StopReason.KILL, again_at_once=is_interrupt)
        if launcher is not None:
            launcher.stop(reason.value, at_once=reason is StopReason.KILL)

    def _handle_shutdown_signal(self, signum: int, frame: FrameType | None) -> None:
        self.request_stop(StopReason.INTERRUPT)

    def _emit(self, event: Event) -> None:
        self._on_event(event)


@contextmanager
def _held(credentials: Credentials) -> Iterator[str]:
    credential = credentials.acquire()
    if credential is None:
        raise RuntimeError("Failed to acquire credential")
    try:
        yield credential
    finally:
        credentials.release(credential)


def _result(end: CallEnd) -> WorkflowResult:
    return WorkflowResult(
        item_id=end.item_id,
        success=end.is_success,
        error=end.message or None,
        error_type=end.error_type,
        traceback=end.traceback,
        duration_seconds=end.seconds,
    )


class _ReportBuilder:
    """Follows a run's events into a `ProgressReport`."""

    def __init__(self, items: Sequence[str], done: Collection[str]) -> None:
        self._items = items
        self._running: set[str] = set()
        self._outcomes: dict[str, Outcome] = dict.fromkeys(done, COMPLETED)

    @property
    def left(self) -> list[str]:
        return [item_id for item_id in self._items if self._outcomes.get(item_id, INTERRUPTED).is_left]

    def note(self, event: Event) -> None:
        match event:
            case ItemStarted(item_id=item_id):
                self._running.add(item_id)
            case ItemRetried(item_id=item_id):
                self._running.discard(item_id)
            case ItemEnded(item_id=item_id, outcome=outcome):
                self._running.discard(item_id)
                self._outcomes[item_id] = outcome

    def report(self) -> ProgressReport:
        ended = [i for i in self._items if not self._outcomes.get(i, INTERRUPTED).is_left]
        failed = [i for i in ended if self._outcomes[i].is_failure]
        done = [i for i in ended if i not in failed]
        return ProgressReport(
            total=len(self._items),
            completed=len(done),
            failed=len(failed),
            in_progress=len(self._running),
            pending=len(self._items) - len(ended) - len(self._running),
            failed_items=failed,
            completed_items=done,
        )


def _printing_listener(label_prefix: str = "") -> Any:
    # The one edge from here to the reporters: the words for those who bring no listener.
    from agentos.reporters.console import PrintingListener  # noqa: PLC0415
    from agentos.reporters.wording import labels_with  # noqa: PLC0415

    return PrintingListener(labels_with(label_prefix))
