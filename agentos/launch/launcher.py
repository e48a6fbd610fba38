"""One run from its folder to its exit code: reporters, claims and loop, put together."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from agentos.engine.checkpoints import access_of, forget_set_aside, outlived, probe_of, store_for, waiting_as_a_run
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import Claims, FileClaims, claim_name, claims_of, take_claims
from agentos.engine.control import ControlServer
from agentos.engine.coordinator import Coordinator
from agentos.engine.done_notes import Done, notes_of
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.loop import Loop
from agentos.engine.plan import item_hash
from agentos.engine.signals import signals_handled, stops_deferred
from agentos.engine.store_patience import StorePatience
from agentos.errors import ExitCode, UsageError
from agentos.events import Listener, RunNoticed, Stamped, Warned
from agentos.files import remove_all, remove_empty, write_private
from agentos.launch.keys import RunKeys, make_lease_server
from agentos.launch.output import RunOutput
from agentos.launch.request import RunRequest
from agentos.launch.workers import (
    make_backend,
    make_gateway,
    passing_on,
    usable_urls,
    with_own_settings,
    worker_setup,
)
from agentos.paths import results_lock_path
from agentos.records.runs import KEPT_DAYS, Taken, create_run_dir, hold_run_lock, holders_of, prune
from agentos.reporters.audit import AuditReporter
from agentos.reporters.logs import LogReporter
from agentos.reporters.results import ResultsReporter
from agentos.reporters.resume_line import KEPT_INPUT
from agentos.reporters.summary import SummaryReporter

if TYPE_CHECKING:
    from agentos.launch.notify import Notifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    exit_code: ExitCode
    run_dir: Path


class Launcher:
    """One run. `stop` may be called from any thread while `run` is under way."""

    def __init__(self, request: RunRequest, listener: Listener | None = None) -> None:
        self._request = request
        self._listener = listener
        self._run: Coordinator | None = None
        self._has_begun = False
        self._early_stop = ""
        self._exit_code = ExitCode.INTERRUPTED
        self.run_id = ""
        """Known before the first event."""

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        self._early_stop = reason
        if self._run is not None:
            self._run.request_stop(reason, at_once=at_once)

    def run(self) -> RunResult:
        """Raises UsageError before anything starts, AgentosError when the run cannot keep its records."""
        request = self._request
        memory_limit(request.environment.get(MEMORY_LIMIT_VARIABLE, ""))
        with ExitStack() as cleanup:
            cleanup.enter_context(signals_handled(_interrupt))
            keys = RunKeys(request)
            passed_on = passing_on(request)
            urls, endpoint_warnings = usable_urls(request, keys.providers)
            run_dir = _make_run_dir(cleanup, _taken(request), is_used=lambda: self._has_begun)
            loop = Loop()
            cleanup.callback(loop.close)
            self.run_id = run_dir.name
            output = self._output(loop, run_dir)
            # What the database wants to hear may come from a file that only libpq knows.
            keys.redactor.add([access_of(request.project_dir).password])
            with _records_kept():
                if request.piped_input:
                    write_private(run_dir / KEPT_INPUT, request.piped_input)
                claims = cleanup.enter_context(claims_of(request.project_dir, f"run {run_dir.name}"))
                cleanup.callback(self._discard_unless_begun, claims)
                if request.results_target is not None and not _is_stdout(request.results_target):
                    _claim_results(request.results_target, cleanup)
                audit = AuditReporter(run_dir, output.json_sink if request.is_json else None)
                results = _results_reporter(request, run_dir, output)
            gateway = make_gateway(request, keys, loop, urls)
            patience = StorePatience(
                loop, probe_of(request.project_dir, on_wait=self._warn, is_hurried=lambda: self._is_hurried)
            )
            notifier = self._notifier(cleanup, run_dir, keys)
            setup = worker_setup(request, run_dir.name, urls, keys, gateway)
            run = Coordinator(
                with_own_settings(request.plan, request.settings),
                request.for_engine(run_dir),
                loop=loop,
                reporters=[
                    *output.reporters(self._pause_output),
                    LogReporter(run_dir),
                    SummaryReporter(run_dir),
                    *([notifier] if notifier else []),
                    *([_ListenerReporter(self._listener)] if self._listener else []),
                ],
                vital_reporters=[audit, *([results] if results else [])],
                claims=claims,
                backend=lambda events: make_backend(request, loop, events, setup, claims, keys.redactor),
                keys=lambda control, emit: make_lease_server(request, keys, loop, control, emit, gateway, patience),
                redactor=keys.redactor,
                store_patience=patience,
                hold_node=request.hold_node,
            )
            cleanup.enter_context(
                waiting_as_a_run(request.project_dir, on_wait=run.warn_now, is_hurried=lambda: run.is_hurried)
            )
            run.standstill.display = output
            warnings = [*keys.warnings, *endpoint_warnings, *passed_on, *output.warnings]
            warnings += _listen(cleanup, run_dir, loop, run)
            self._exit_code = self._execute(run, claims, output, results, warnings)
            _tidy_up(request.project_dir, datetime.now(UTC))
            return RunResult(exit_code=self._exit_code, run_dir=run_dir)

    def _output(self, loop: Loop, run_dir: Path) -> RunOutput:
        request = self._request
        return RunOutput(
            loop,
            run_dir,
            is_json=request.is_json or _is_stdout(request.results_target),
            is_quiet=request.is_quiet,
            shows_node=request.shows_node,
            on_closed=self._stop_because_closed,
            on_drained=self._resume_output,
            mode=request.output_mode,
            item_count=len(request.plan.items),
            stages=request.stages,
        )

    def _execute(
        self,
        run: Coordinator,
        claims: Claims,
        output: RunOutput,
        results: ResultsReporter | None,
        warnings: Sequence[str],
    ) -> ExitCode:
        request = self._request
        self._run = run
        if self._early_stop:
            run.request_stop(self._early_stop)
        try:
            run.prepare()
            held = _held_items(request, claims, self.run_id)
            done = _done_items(request, held)
            if results is not None:
                results.begin([i.id for i in request.plan.items], {i: note.run_id for i, note in done.items()})
            return run.execute(
                held=held,
                done=done,
                announcements=[
                    *([request.preflight] if request.preflight else []),
                    *(Warned(text=warning) for warning in (*request.warnings, *warnings)),
                    *(RunNoticed(text=notice) for notice in request.notices),
                ],
            )
        finally:
            self._has_begun = run.has_begun
            run.close()
            output.close(is_stopping=run.is_stopping)
            self._run = None

    def _notifier(self, cleanup: ExitStack, run_dir: Path, keys: RunKeys) -> Notifier | None:
        notify = self._request.settings.notify
        if not notify.command and not notify.desktop:
            return None
        from agentos.launch.notify import Notifier  # noqa: PLC0415  Few ask to be told.

        environment = keys.scrub(self._request.environment)
        made = Notifier(notify, run_dir, environment, redact=keys.redactor.redact_text, on_failure=self._warn)
        cleanup.callback(lambda: _finish_notifying(made, self._exit_code))
        return made

    @property
    def _is_hurried(self) -> bool:
        run = self._run
        return run is not None and run.is_hurried

    def _warn(self, text: str) -> None:
        if self._run is not None:
            self._run.warn(text)

    def _discard_unless_begun(self, claims: Claims) -> None:
        if not self._has_begun:
            claims.discard()

    def _stop_because_closed(self) -> None:
        if self._run is not None:
            self._run.request_stop("output closed")

    def _pause_output(self) -> None:
        if self._run is not None:
            self._run.standstill.pause_output()

    def _resume_output(self) -> None:
        if self._run is not None:
            self._run.standstill.resume_output()


def _listen(cleanup: ExitStack, run_dir: Path, loop: Loop, run: Coordinator) -> list[str]:
    """Let people steer the run. What to tell when they cannot."""
    try:
        cleanup.callback(ControlServer(run_dir, loop, run.steer).close)
    except OSError as error:
        return [f"this run cannot be steered while it is under way: {error.strerror or error}"]
    return []


def _finish_notifying(notifier: Notifier, exit_code: ExitCode) -> None:
    """Whoever has stopped the run by hand does not wait for messages to themselves."""
    from agentos.launch.notify import LAST_SECONDS  # noqa: PLC0415  Loaded with the notifier.

    notifier.finish(0.0 if exit_code is ExitCode.INTERRUPTED else LAST_SECONDS)
    if notifier.untold_failure:
        sys.stderr.write(f"Warning: {notifier.untold_failure}\n")


def _tidy_up(project_dir: Path, now: datetime) -> None:
    """What is too old to be of use: run records, and checkpoints that could not be resumed from."""
    prune(now)
    before = now - timedelta(days=KEPT_DAYS)
    remove_all(outlived(before))
    forget_set_aside(project_dir, before)


def _is_stdout(target: Path | None) -> bool:
    return target is not None and str(target) == "-"


def _claim_results(target: Path, cleanup: ExitStack) -> None:
    """Two runs that write one file would each replace it under the other. Raises UsageError."""
    claims = cleanup.enter_context(FileClaims(results_lock_path()))
    cleanup.callback(claims.discard)
    if not claims.take(str(target.resolve())):
        raise UsageError(
            f"--output {str(target)!r}: another run writes its results there now. Wait for it, or give another name."
        )


def _results_reporter(request: RunRequest, run_dir: Path, output: RunOutput) -> ResultsReporter | None:
    if not request.hands_out_results:
        return None
    target = output.json_sink if _is_stdout(request.results_target) else request.results_target
    order = request.batch or [item.id for item in request.plan.items]
    return ResultsReporter(run_dir, target, order, is_ordered=request.results_in_order)


def _interrupt(_number: int) -> NoReturn:
    """Until the run itself listens, every stop signal is a Ctrl+C: what there is so far is undone."""
    raise KeyboardInterrupt


def _taken(request: RunRequest) -> Taken:
    return Taken(
        project_dir=str(request.project_dir),
        workflow=request.workflow,
        items=tuple(item.id for item in request.plan.items),
    )


def _make_run_dir(cleanup: ExitStack, taken: Taken, is_used: Callable[[], bool]) -> Path:
    """The run's folder, held as alive. A run that never began leaves none behind."""
    with _records_kept(), stops_deferred():
        run_dir = create_run_dir(datetime.now(UTC))
        cleanup.callback(_remove_unless, is_used, run_dir)
        cleanup.callback(os.close, hold_run_lock(run_dir, taken))
    return run_dir


@contextmanager
def _records_kept() -> Iterator[None]:
    """A folder that takes no records is the user's to change, not a bug."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT):
            raise  # Not of this folder: the command says what to do.
        raise UsageError(
            f"Cannot keep records in {error.filename}: {error.strerror}. Set AGENTOS_HOME to a writable folder."
        ) from None


def _remove_unless(is_used: Callable[[], bool], run_dir: Path) -> None:
    if not is_used():
        shutil.rmtree(run_dir, ignore_errors=True)
        remove_empty(run_dir.parent)


def _held_items(request: RunRequest, claims: Claims, run_id: str) -> dict[str, str]:
    names = {item.id: claim_name(request.workflow, item.id) for item in request.plan.items}

    def holders() -> dict[str, str]:
        living = holders_of(str(request.project_dir), request.workflow, besides=run_id)
        return {item_id: f"run {holder}" for item_id, holder in living.items()}

    held = take_claims(claims, names, holders)
    dying = "a worker of a run that was killed; try again in a moment"
    return {item_id: holder or dying for item_id, holder in held.items()}


def _done_items(request: RunRequest, held: Collection[str]) -> dict[str, Done]:
    """Items that an earlier run of this batch, stopped or failed in part, has done with the same input."""
    notes, checkpoints = notes_of(request.project_dir, request.workflow), store_for(request.project_dir)
    found: dict[str, Done] = {}
    for item in request.plan.items:
        if item.id in held:
            continue
        done = notes.done(item.id, item_hash(item))
        if request.fresh or (done is not None and not request.still_done(item, done)):
            notes.forget(item.id)
        elif done is not None:
            # Killed between noting it and removing its checkpoint, a run leaves both.
            with suppress(OSError):
                checkpoints.remove(ItemRef(request.workflow, item.id))
            found[item.id] = done
    return found


class _ListenerReporter:
    """Bare events for a caller's own listener."""

    name = "the caller's listener"

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def handle(self, stamped: Stamped) -> None:
        self._listener(stamped.event)

    def close(self) -> None:
        """Nothing to close."""
