"""One run of a graph over many items: owns the loop, the workers, the claims and the records of the run.

Requests go down to workers, facts come up as events. Decisions are the schedule's; this file carries them out.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentos.engine.backends.forkserver.backend import ProcessBackend, ServerFailed, WorkerExit
from agentos.engine.claims import Claims
from agentos.engine.done_notes import Done
from agentos.engine.emitter import Emitter, Reporter
from agentos.engine.item_end import GivenUp, ItemEnd, LastWord, decide_end
from agentos.engine.item_store import ItemStore
from agentos.engine.item_watch import ItemWatch, TimeLimits
from agentos.engine.lease_server import ItemUsage, KeyDesk, RunControl
from agentos.engine.loop import Loop, Timer
from agentos.engine.messages import (
    DownMessage,
    Heartbeat,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    LeaseAsk,
    LeaseCancel,
    LeaseReturn,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
    UpMessage,
)
from agentos.engine.plan import Item, Plan
from agentos.engine.schedule import (
    Action,
    Ending,
    Finish,
    Kill,
    Retry,
    Schedule,
    Skip,
    Start,
    Stop,
)
from agentos.engine.signals import signals_handled
from agentos.engine.standby import Ahead, ReadyWorker
from agentos.engine.stopping import GRACE, Stopping
from agentos.engine.tally import Tally
from agentos.errors import ExitCode, UsageError
from agentos.events import (
    ChildrenLeaked,
    Event,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    Listener,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    RunEnded,
    RunFaulted,
    RunStarted,
    StopRequested,
    Warned,
)
from agentos.keys.redaction import Redactor
from agentos.outcomes import INTERRUPTED, SKIPPED, Cause, Outcome, outcome_named
from agentos.processes import host

_PREPARE_AFTER_SECONDS = 0.05
"""How long no item may have started before the next ones are made ready: starts come in bursts."""
_MOST_SERVER_LOSSES = 3

HoldNode = Callable[[str, str], str]
"""Item id and node to the reason why the node must not start now; empty when it may."""


def hold_nothing(_item_id: str, _node: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run needs to know. Everything has been checked."""

    run_id: str
    workflow: str
    """The `{type}` of file names."""
    graph: str
    project_dir: Path
    search_dir: Path
    parallel: int = 1
    time_limits: TimeLimits
    retries: int = 0
    fresh: bool = False
    fork: bool = True
    label_prefix: str = ""
    resume_command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The workers' environment, without secrets."""
    preload_providers: Sequence[str] = ()
    """Whose SDKs are loaded once for all workers."""
    key_providers: Sequence[str] = ()
    """Whose SDKs are loaded as well if the graph turns out to call models."""


@dataclass(slots=True)
class _Running:
    """What is known of an item while a worker has it."""

    item: Item
    attempt: int
    watch: ItemWatch
    pid: int = 0
    given_up: GivenUp | None = None
    held_because: str = ""
    """Why its next node was not let start: it ends as paused."""
    is_at_work: bool = False
    """Its first node has been let start."""
    last_word: LastWord = None
    usage: ItemUsage = field(default_factory=ItemUsage)
    exit_timer: Timer | None = None


class Coordinator:
    """Build it, `execute()` it once, read `exit_code`."""

    def __init__(
        self,
        plan: Plan,
        settings: RunSettings,
        *,
        loop: Loop,
        reporters: Sequence[Reporter],
        vital_reporters: Sequence[Reporter] = (),
        claims: Claims,
        keys: Callable[[RunControl, Listener], KeyDesk],
        redactor: Redactor,
        hold_node: HoldNode = hold_nothing,
    ) -> None:
        """Signals are handled during `execute` only. `keys` makes the desk that serves this run's workers.

        `hold_node` is asked before each node; an item it holds keeps its checkpoint and ends as `paused`.
        """
        self._hold_node = hold_node
        self._settings = settings
        self._plan = plan
        self._items = {item.id: item for item in plan.items}
        self._held: dict[str, str] = {}
        self._done: dict[str, Done] = {}
        self._announcements: list[Event] = []
        self._loop = loop
        self._store = ItemStore(settings.project_dir, settings.workflow, claims)
        self._emitter = Emitter(
            settings.run_id, reporters, vital=vital_reporters, on_vital_failure=lambda reason: self.fault(reason)
        )
        self._schedule = self._make_schedule()
        self._backend = ProcessBackend(
            loop,
            self,
            graph=settings.graph,
            search_dir=settings.search_dir,
            run_id=settings.run_id,
            fork=settings.fork,
            environment=settings.environment,
            preload_providers=settings.preload_providers,
            key_providers=settings.key_providers,
            redactor=redactor,
        )
        self._keys = keys(self, self._emit)
        self._redactor = redactor
        self._running: dict[str, _Running] = {}
        # One for each place: all may become free at once. None with --fresh, which drops checkpoints.
        self._ahead = Ahead(0 if settings.fresh else settings.parallel)
        self._prepare_timer: Timer | None = None
        self._opened_items: set[str] = set()
        self._tally = Tally(tuple(self._items))
        self._began = loop.now()
        self._server_losses = 0
        self._is_server_ready = False
        self._waiting_for_server: list[Start] = []
        self._load_failure: ServerFailed | None = None
        self._unread_since: float | None = None
        self._stopping = Stopping(loop, kill_all=self._kill_the_rest, give_up=loop.stop)
        self.has_begun = False
        self._is_over = False
        self.exit_code = ExitCode.OK

    # The face.

    def prepare(self) -> None:
        """Start loading the graph. Whatever the caller does until `execute` happens meanwhile."""
        self._backend.launch()

    def hold_back(self, held: Mapping[str, str], done: Mapping[str, Done]) -> None:
        """Items that another run has (and which), and items a stopped run has done already. Before `execute`."""
        self._held = dict(held)
        self._done = dict(done)
        self._schedule = self._make_schedule()

    def announce(self, event: Event) -> None:
        """Emitted right after the run has started."""
        self._announcements.append(event)

    @property
    def is_stopping(self) -> bool:
        return self._schedule.is_stopping

    def execute(self) -> ExitCode:
        """Run everything to its end. Raises UsageError when the graph or an input cannot be used."""
        with signals_handled(self._on_signal, self._on_suspend, self._on_continue):
            try:
                self._loop.run()
                if self._load_failure is not None:
                    raise _load_error(self._load_failure)
            finally:
                self.close()
                self._finish()
        return self.exit_code

    def close(self) -> None:
        """Nothing of the run stays alive behind this call. For a caller that never comes to `execute`."""
        self._backend.close(self._stopping.seconds_to_close())
        self._keys.close()

    def request_stop(self, reason: str, *, at_once: bool = False, exit_code: ExitCode = ExitCode.INTERRUPTED) -> None:
        """Nothing new starts; running items stop at the next safe point, or now. Safe from any thread."""
        self._loop.post(lambda: self._stop(reason, at_once=at_once, exit_code=exit_code))

    def fault(self, reason: str) -> None:
        """A fault of the run itself: stop gracefully with what there is."""
        self._stopping.blame_the_run()
        self._emit(RunFaulted(reason=reason))
        # A fault may come from within any emit, so stopping waits for the loop; that nothing new starts does not.
        actions = self._schedule.limit_changed(0)
        self._loop.post(lambda: self._stop_for_fault(reason, actions))

    def _stop_for_fault(self, reason: str, actions: Sequence[Action]) -> None:
        self._perform(actions)
        self._stop(reason, at_once=False, exit_code=ExitCode.ITEM_FAILED)

    def pause_output(self) -> None:
        """Whoever reads the output does not keep up: workers wait, and their time stands still."""
        if self._unread_since is None:
            self._unread_since = self._loop.now()
            self._backend.pause_output()

    def resume_output(self) -> None:
        # Not here and now: the reader's progress may be noticed in the middle of an event.
        self._loop.post(self._go_on_reading)

    def _go_on_reading(self) -> None:
        if self._unread_since is not None:
            since, self._unread_since = self._unread_since, None
            self._let_time_go_on(since)
            self._backend.resume_output()

    # What the key desk asks for.

    def send(self, item_id: str, message: DownMessage) -> None:
        self._backend.send(item_id, message)

    def waiting_changed(self, waiting: set[str]) -> None:
        for item_id, running in self._running.items():
            running.watch.wait_for_key(item_id in waiting)

    def set_parallel(self, parallel: int) -> None:
        self._perform(self._schedule.limit_changed(parallel))

    # Stopping.

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        is_second = self._schedule.is_stopping
        self._loop.post(lambda: self._stop(name, at_once=is_second or self._schedule.is_stopping))

    def _on_suspend(self) -> None:
        self._loop.post(self._suspend)

    def _on_continue(self) -> None:
        """Somebody suspended us alone: workers that waited for a word from us were not to blame."""
        since = self._loop.waits_since
        self._loop.post(lambda: self._let_time_go_on(since))

    def _suspend(self) -> None:
        """Ctrl+Z: the workers, which are in sessions of their own, are suspended with us."""
        began = self._loop.now()
        self._backend.signal_all(signal.SIGSTOP)
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), signal.SIGTSTP)  # Returns when we are continued.
        finally:
            signal.signal(signal.SIGTSTP, handler)
        self._backend.signal_all(signal.SIGCONT)
        self._let_time_go_on(began)

    def _let_time_go_on(self, since: float) -> None:
        """All workers stood still since then."""
        for running in self._running.values():
            running.watch.stood_still(since)

    def _stop(self, reason: str, *, at_once: bool, exit_code: ExitCode = ExitCode.INTERRUPTED) -> None:
        if self._is_over or not self._stopping.request(exit_code, at_once=at_once):
            return
        self._emit(StopRequested(reason=reason, at_once=at_once))
        for item_id in self._ahead:
            self._backend.kill(item_id)
        self._perform(self._schedule.stop(at_once=at_once))
        self._backend.stop_holding()
        waiting, self._waiting_for_server = self._waiting_for_server, []
        for start in waiting:
            # No worker was made for it: the fork server is still loading.
            self._perform(self._schedule.ended(start.item_id, Ending.INTERRUPTED))

    def _kill_the_rest(self) -> None:
        for item_id in list(self._running):
            self._backend.kill(item_id)

    # Carrying out decisions.

    def _make_schedule(self) -> Schedule:
        return Schedule(
            [item.id for item in self._plan.items],
            self._plan.depends_on,
            limit=self._settings.parallel,
            retries=self._settings.retries,
            absent=[*self._held, *(i for i, done in self._done.items() if not done.outcome.is_done)],
            done=[i for i, done in self._done.items() if done.outcome.is_done],
            exclusive=self._plan.exclusive,
        )

    def _begin(self) -> None:
        self.has_begun = True
        settings = self._settings
        self._emit(
            RunStarted(
                workflow=settings.workflow,
                project_dir=str(settings.project_dir),
                items=tuple(self._items),
                parallel=settings.parallel,
                pid=os.getpid(),
                label_prefix=settings.label_prefix,
                resume_command=settings.resume_command,
            )
        )
        for event in self._announcements:
            self._emit(event)
        for item_id, holder in self._held.items():
            self._record_skip(item_id, Cause.HELD, f"held by {holder}")
        for item_id, done in self._done.items():
            self._record_end(
                ItemEnded(
                    item_id=item_id,
                    outcome=done.outcome,
                    cause=Cause.EARLIER_RUN,
                    reason=f"in run {done.run_id} already",
                    seconds=0.0,
                    attempts=0,
                )
            )
            self._store.give_back(item_id)
        self._perform(self._schedule.begin())

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Start():
                    self._start(action)
                case Stop(item_id=item_id):
                    self._backend.send(item_id, StopItem())
                case Kill(item_id=item_id):
                    self._backend.kill(item_id)
                case Skip(item_id=item_id, dependency=dependency):
                    self._skip(item_id, dependency)
                case Retry():
                    pass  # Said when the attempt ended, with its reason.
                case Finish():
                    self._is_over = True
                    self._loop.stop()

    def _start(self, start: Start) -> None:
        if not self._is_server_ready:
            self._waiting_for_server.append(start)
            return
        item = self._items[start.item_id]
        watch = ItemWatch(item.id, self._loop, self._settings.time_limits, self, lambda: self._is_suspended(item.id))
        running = self._running[item.id] = _Running(item=item, attempt=start.attempt, watch=watch)
        ready = self._ahead.take(item.id)
        if ready is not None:
            running.pid = ready.pid
            for hear in ready.heard:
                hear()
            return
        try:
            self._make_worker(item, start.attempt)
        except OSError as error:
            del self._running[item.id]
            self.fault(f"cannot start a worker: {error.strerror or error}")
            self._perform(self._schedule.ended(item.id, Ending.INTERRUPTED))

    def _plan_preparing(self) -> None:
        """An item has started; others may be about to, and those come first."""
        if self._prepare_timer is not None:
            self._prepare_timer.cancel()
        self._prepare_timer = self._loop.after(_PREPARE_AFTER_SECONDS, self._prepare_next)

    def _prepare_next(self) -> None:
        """Make the next item ready, unless there is anything better to do."""
        if not self._is_server_ready or not all(running.is_at_work for running in self._running.values()):
            return
        item_id = self._ahead.add(self._schedule.next_up(self._ahead.most + 1))
        ready = self._ahead.get(item_id) if item_id is not None else None
        if item_id is None or ready is None:
            return
        ready.had_checkpoint = self._store.db_path(item_id).exists()
        try:
            self._make_worker(self._items[item_id], attempt=1)
        except OSError:
            self._drop_ready(item_id)
            self._ahead.spoil(item_id)

    def _drop_ready(self, item_id: str) -> None:
        """Its worker is gone and the item has not started."""
        ready = self._ahead.take(item_id)
        if ready is None:
            return
        if ready.notice:
            self._emit(ItemNoticed(item_id=item_id, text=ready.notice))
        if not ready.had_checkpoint:
            self._store.remove_checkpoint(item_id)

    def _make_worker(self, item: Item, attempt: int) -> None:
        """Raises OSError when there is nothing to make it of: descriptors, memory."""
        settings = self._settings
        message = StartItem(
            item_id=item.id,
            workflow=settings.workflow,
            run_id=settings.run_id,
            attempt=attempt,
            input=dict(item.input),
            db_path=str(self._store.db_path(item.id)),
            project_dir=str(settings.project_dir),
            # An item that comes back, after a crash or a lost fork server, goes on from where it was.
            fresh=settings.fresh and item.id not in self._opened_items,
            heartbeat_seconds=settings.time_limits.heartbeat_seconds,
            stop_grace_seconds=GRACE.worker,
            environment=dict(item.environment),
        )
        self._backend.start(message, self._store.claims_fd())

    def _skip(self, item_id: str, dependency: str) -> None:
        outcome = self._tally.outcome_of(dependency)
        self._record_skip(item_id, Cause.DEPENDENCY, f"dependency {dependency} {outcome.as_clause()}")
        self._store.give_back(item_id)

    def _record_skip(self, item_id: str, cause: Cause, reason: str) -> None:
        self._record_end(ItemEnded(item_id=item_id, outcome=SKIPPED, cause=cause, reason=reason, seconds=0.0))

    # What workers do.

    def server_ready(self, input_keys: list[str] | None) -> None:
        self._is_server_ready = True
        if not self.has_begun:
            wrong = _unknown_input(self._plan, input_keys)
            if wrong:
                self._load_failure = ServerFailed(message=wrong, traceback="", is_usage=True)
                self._loop.stop()
                return
            self._begin()
        waiting, self._waiting_for_server = self._waiting_for_server, []
        self._perform(waiting)

    def server_failed(self, failure: ServerFailed) -> None:
        if self.has_begun:
            self.fault(f"the graph no longer loads: {failure.message}")
            return
        self._load_failure = failure
        self._loop.stop()

    def server_lost(self) -> None:
        self._is_server_ready = False
        if self._schedule.is_stopping:
            return
        self._server_losses += 1
        if not self.has_begun:
            # After a failure it has told us of, its end is no news.
            self._load_failure = self._load_failure or ServerFailed(
                message=f"--graph {self._settings.graph!r}: the process that loads it died; does it crash on import?",
                traceback="",
                is_usage=True,
            )
            self._loop.stop()
        elif self._server_losses > _MOST_SERVER_LOSSES:
            self.fault("the fork server keeps dying")
        else:
            self._emit(
                Warned(text="the fork server was killed; starting another, its items go on from their checkpoints")
            )
            self._backend.launch()

    def server_said(self, block: bytes) -> None:
        for line in block.decode(errors="replace").splitlines():
            self._emit(Warned(text=f"while loading the graph: {line}"))

    def worker_started(self, item_id: str, pid: int) -> None:
        (self._ahead.get(item_id) or self._running[item_id]).pid = pid

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        ready = self._ahead.get(item_id)
        if ready is not None:
            ready.heard.append(lambda: self.worker_wrote(item_id, block))
            return
        self._emit(OutputProduced(item_id=item_id, block=block))

    def worker_said(self, item_id: str, message: UpMessage) -> None:
        ready = self._ahead.get(item_id)
        if ready is not None:
            self._keep_for_start(item_id, ready, message)
            return
        running = self._running[item_id]
        running.watch.hear()
        match message:
            case ItemOpened(resumed_after=resumed_after, notice=notice):
                self._opened(running, resumed_after, notice)
            case NodeReady(node=node, finished=finished):
                self._nodes_finished(item_id, finished)
                if not self._schedule.is_stopping:
                    self._start_or_hold(running, node)
            case LeaseAsk() | LeaseCancel() | LeaseReturn():
                self._keys.take(item_id, message)
            case Heartbeat():
                pass
            case ItemDone() | ItemFailed() | ItemStopped():
                running.last_word = message
                running.watch.close()
                if not isinstance(message, ItemStopped):
                    self._nodes_finished(item_id, message.finished)
                # It has nothing left to do but to exit.
                running.exit_timer = self._loop.after(GRACE.worker, lambda: self._backend.kill(item_id))

    def _keep_for_start(self, item_id: str, ready: ReadyWorker, message: UpMessage) -> None:
        match message:
            case Heartbeat():
                return
            case ItemOpened(notice=notice):
                ready.notice = notice
            case NodeReady():
                ready.is_waiting = True
        ready.heard.append(lambda: self.worker_said(item_id, message))
        if ready.is_waiting:
            self._prepare_next()

    def _opened(self, running: _Running, resumed_after: str | None, notice: str) -> None:
        self._opened_items.add(running.item.id)
        self._emit(
            ItemStarted(
                item_id=running.item.id, attempt=running.attempt, pid=running.pid, resumed_after=resumed_after
            )
        )
        if notice:
            self._emit(ItemNoticed(item_id=running.item.id, text=notice))
        running.watch.begin()

    def _start_or_hold(self, running: _Running, node: str) -> None:
        item_id = running.item.id
        running.held_because = running.held_because or self._hold_node(item_id, node)
        if running.held_because:
            self._backend.send(item_id, StopItem())
        else:
            self._emit(NodeStarted(item_id=item_id, node=node))
            self._backend.send(item_id, Proceed())
            if not running.is_at_work:
                running.is_at_work = True
                self._plan_preparing()

    def _nodes_finished(self, item_id: str, finished: Sequence[tuple[str, float]]) -> None:
        for node, seconds in finished:
            self._emit(NodeFinished(item_id=item_id, node=node, seconds=seconds))

    # Time.

    def is_unread(self) -> bool:
        return self._unread_since is not None

    def suspended(self, item_id: str) -> None:
        self._emit(ItemNoticed(item_id=item_id, text="suspended; its time limit waits"))

    def timed_out(self, item_id: str) -> None:
        limit = self._settings.time_limits.timeout_seconds
        self._give_up_on(item_id, GivenUp(Cause.TIMED_OUT, f"timed out after {limit:g} s"))

    def stalled(self, item_id: str, silent_seconds: float) -> None:
        self._emit(ItemStalled(item_id=item_id, silent_seconds=round(silent_seconds, 1)))
        reason = f"stalled: no sign of life for {silent_seconds:.0f} s"
        self._give_up_on(item_id, GivenUp(Cause.STALLED, reason))

    def _is_suspended(self, item_id: str) -> bool:
        pid = self._running[item_id].pid
        return bool(pid) and host.is_suspended(pid)

    def _give_up_on(self, item_id: str, why: GivenUp) -> None:
        self._running[item_id].given_up = why
        self._running[item_id].watch.close()
        self._backend.kill(item_id)

    # How items end.

    def worker_gone(self, item_id: str, exit: WorkerExit) -> None:
        if self._ahead.get(item_id) is not None:
            self._drop_ready(item_id)
            # Lost with the fork server, it may be made ready again.
            if exit.code is not None:
                self._ahead.spoil(item_id)
            self._prepare_next()
            return
        running = self._running.pop(item_id)
        running.watch.close()
        if running.exit_timer is not None:
            running.exit_timer.cancel()
        # The children of an item that we ended go with it; those of one that ended by itself it should have ended.
        if exit.leaked and not (running.given_up or self._schedule.is_stopping):
            self._emit(ChildrenLeaked(item_id=item_id, pids=exit.leaked))
        running.usage = self._keys.worker_gone(item_id)
        end = decide_end(
            self._last_word(running),
            exit.code,
            given_up=running.given_up,
            held_because=running.held_because,
            is_stopping=self._schedule.is_stopping,
            may_retry=running.attempt <= self._settings.retries,
        )
        ending = self._carry_out(running, end)
        self._perform(self._schedule.ended(item_id, ending))

    def _last_word(self, running: _Running) -> LastWord:
        """A checkpoint that one worker cannot write where others can is that item's fault, not the run's."""
        word = running.last_word
        if isinstance(word, ItemFailed) and word.is_run_fault and self._store.can_keep(running.item.id):
            return replace(word, is_run_fault=False)
        return word

    def _carry_out(self, running: _Running, end: ItemEnd) -> Ending:
        """Files first: a record says only what is true."""
        item_id, seconds = running.item.id, round(running.watch.seconds, 6)
        if end.has_succeeded:
            end = self._store.publish(end)
        if not end.has_succeeded:
            self._store.drop_unfinished_documents(item_id)
        if end.is_run_fault:
            self.fault(end.reason)
        self._tally.attempt(seconds)
        if end.outcome is not None:
            self._end_item(running, end, end.outcome, seconds)
        else:
            self._emit(ItemRetried(item_id=item_id, attempt=running.attempt, reason=end.reason))
        return end.ending

    def _end_item(self, running: _Running, end: ItemEnd, outcome: Outcome, seconds: float) -> None:
        item = running.item
        self._record_end(
            ItemEnded(
                item_id=item.id,
                outcome=outcome,
                cause=end.cause,
                seconds=seconds,
                reason=end.reason,
                error_type=end.error_type,
                traceback=end.traceback,
                attempts=running.attempt,
                input_tokens=running.usage.input_tokens,
                output_tokens=running.usage.output_tokens,
                cost_usd=round(running.usage.cost_usd, 6),
            )
        )
        if end.has_succeeded:
            self._note_done(item, outcome)
        self._store.give_back(item.id)

    def _note_done(self, item: Item, outcome: Outcome) -> None:
        try:
            self._store.note_done(item, outcome, self._settings.run_id)
        except OSError as error:
            self.fault(f"cannot note that {item.id} is done: {error.strerror or error}")

    def _record_end(self, event: ItemEnded) -> None:
        event = replace(
            event,
            outcome=outcome_named(self._redactor.redact_text(event.outcome.name)),
            error_type=self._redactor.redact_text(event.error_type),
            reason=self._redactor.redact_text(event.reason, is_cut=True),
            traceback=self._redactor.redact_text(event.traceback),
        )
        self._tally.ended(event)
        self._emit(event)

    # The end.

    def _finish(self) -> None:
        for item_id in self._ahead:
            self._drop_ready(item_id)
        for running in list(self._running.values()):
            # Only when the fork server itself was too slow: its workers are dead by now.
            self._end_item(running, ItemEnd(ending=Ending.INTERRUPTED), INTERRUPTED, 0.0)
        self._running.clear()
        if self.has_begun:
            self.exit_code = self._tally.exit_code(self._stopping.exit_code)
            if self._tally.is_through:
                self._store.forget_done(self._items)
            self._emit(
                RunEnded(
                    counts=self._tally.counts,
                    left=self._tally.left,
                    wall_seconds=round(self._loop.now() - self._began, 3),
                    item_seconds=round(self._tally.item_seconds, 3),
                    exit_code=int(self.exit_code),
                )
            )
        elif self._stopping.exit_code is not None:
            self.exit_code = self._stopping.exit_code
        self._emitter.close()

    def _emit(self, event: Event) -> None:
        self._emitter.emit(event)


def _unknown_input(plan: Plan, input_keys: list[str] | None) -> str:
    if input_keys is None:
        return ""
    for item in plan.items:
        unknown = sorted(set(item.input) - set(input_keys))
        if unknown:
            return (
                f"Item {item.id!r}: the graph's state has no key {unknown[0]!r}; LangGraph would drop it in silence. "
                f"Known keys: {', '.join(sorted(input_keys)) or 'none'}."
            )
    return ""


def _load_error(failure: ServerFailed) -> UsageError:
    if failure.is_usage:
        return UsageError(failure.message)
    last_lines = "\n".join(failure.traceback.strip().splitlines()[-8:])
    return UsageError(f"The graph cannot be loaded: {failure.message}\n{last_lines}")
