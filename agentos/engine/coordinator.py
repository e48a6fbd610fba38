"""The coordinator: owns one run of a graph over many items, its loop and its order of things.

Requests go down to workers, facts come up as events. Decisions are the schedule's; this file carries them out.
The life of one item is in `item_run.py`, its end in `results.py`, workers made before their turn in `standby.py`, how
many run at once in `item_limit.py`, the times of a stop in `stopping.py`, waiting for a store in `store_patience.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from agentos.engine.backends.protocol import Backend, BackendEvents, LoadFailure, WorkerExit
from agentos.engine.claims import Claims
from agentos.engine.documents import Writers
from agentos.engine.done_notes import Done
from agentos.engine.emitter import Emitter, Reporter, VitalReporter
from agentos.engine.item_end import surprise
from agentos.engine.item_limit import ItemLimit
from agentos.engine.item_run import HoldNode, ItemRun, hold_nothing
from agentos.engine.item_store import ItemStore
from agentos.engine.lease_server import LeaseServer, RunControl
from agentos.engine.loading import loading_on
from agentos.engine.loop import Loop
from agentos.engine.messages import CustomData, DocumentNamed, DocumentWriter, DownMessage, ItemOpened, UpMessage
from agentos.engine.plan import Plan, unknown_input
from agentos.engine.results import Results
from agentos.engine.run_settings import RunSettings
from agentos.engine.schedule import Action, Ending, Finish, Kill, Retry, Schedule, Skip, Start, Stop
from agentos.engine.signals import signals_handled
from agentos.engine.standby import Standby
from agentos.engine.standstill import Standstill
from agentos.engine.start_messages import StartMessages
from agentos.engine.steering import Act, NotYet, Steering
from agentos.engine.stopping import Stopping
from agentos.engine.store_patience import StorePatience
from agentos.errors import ExitCode
from agentos.events import Event, Listener, OutputProduced, RunFaulted, RunNoticed, StopRequested, Warned
from agentos.keys.leases import LeaseAsk, LeaseCancel, LeaseReturn
from agentos.keys.redaction import Redactor, redact_record
from agentos.outcomes import counts_by_name
from agentos.text.words import dollars

_MOST_LOSSES = 3


class Coordinator:
    """Build it, `execute()` it once, read `exit_code`."""

    def __init__(
        self,
        plan: Plan,
        settings: RunSettings,
        *,
        loop: Loop,
        reporters: Sequence[Reporter],
        vital_reporters: Sequence[VitalReporter] = (),
        claims: Claims,
        backend: Callable[[BackendEvents], Backend],
        keys: Callable[[RunControl, Listener], LeaseServer],
        redactor: Redactor,
        store_patience: StorePatience,
        hold_node: HoldNode = hold_nothing,
    ) -> None:
        """Signals are handled during `execute` only. `keys` makes the lease server of this run's workers.

        `hold_node` is asked before each node; an item it holds keeps its checkpoint.
        """
        self._store_patience = store_patience
        self._plan = plan
        self._settings = settings
        self._loop = loop
        self._hold_node = hold_node
        self._items = {item.id: item for item in plan.items}
        self._schedule = _schedule(plan, settings, {}, {})
        self._emitter = Emitter(settings.run_id, reporters, vital=vital_reporters, on_vital_failure=self.fault)
        self._emit = self._emitter.emit
        self._backend = backend(self)
        self._keys = keys(self, self._emit)
        self._redactor = redactor
        self._store = ItemStore(settings.project_dir, settings.workflow, claims)
        self._starts = StartMessages(settings, self._items, self._store, redactor)
        self._results = Results(
            settings, plan.items, self._store, self._emit, redactor, fault=self.fault, retire=self._backend.retire
        )
        self._item_limit = ItemLimit(
            settings.parallel, loop, self._emit, self._limit_changed, is_paused=lambda: self._steering.is_paused
        )
        self._writers = Writers(settings.project_dir)
        self._running: dict[str, ItemRun] = {}
        self._waiting_for_graph: list[Start] = []
        self._is_loaded = False
        self._load_failure: LoadFailure | None = None
        self._losses = 0
        self._faults: set[str] = set()
        self._began = loop.now()
        self._is_over = False
        self._steering = Steering(self, settings, self._emit)
        self._stopping = Stopping(loop, kill_all=self._kill_the_rest, give_up=loop.stop)
        self.standstill = Standstill(loop, self._backend, self._stood_still)
        self._standby = self._make_standby()
        self._begin: Callable[[], None] = lambda: None
        self.has_begun = False
        self._was_signalled = False
        self.exit_code = ExitCode.OK

    def _make_standby(self) -> Standby:
        return Standby(
            # One for each place: all may become free at once. None with --fresh, which drops checkpoints, nor where
            # a worker cannot know the node that will have room for it.
            0 if self._settings.fresh or not self._settings.prepares_ahead else self._settings.parallel,
            self._loop,
            self._store,
            self._emit,
            when_store_answers=self._store_patience.when_it_answers,
            next_up=lambda count: self._schedule.next_up(count),
            make_worker=lambda item_id: self._make_worker(item_id, attempt=1),
            may_prepare=lambda: self._is_loaded and all(run.is_at_work for run in self._running.values()),
        )

    def prepare(self) -> None:
        """Start loading the graph. Whatever the caller does until `execute` happens meanwhile."""
        self._backend.load()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_under_way

    @property
    def is_hurried(self) -> bool:
        """A person wants it to stop, whatever the loop is busy with: what waits for something waits no longer."""
        return self._was_signalled or self.is_stopping

    def execute(
        self, *, held: Mapping[str, str], done: Mapping[str, Done], announcements: Sequence[Event] = ()
    ) -> ExitCode:
        """Run everything to its end. Raises UsageError when the graph or an input cannot be used.

        `held` are items that another run has (and which), `done` items that a stopped run has done already.
        """
        self._schedule = _schedule(self._plan, self._settings, held, done)
        self._begin = partial(self._results.begin, held, done, announcements)
        for item_id, note in done.items():
            self._writers.wrote(item_id, note.documents)
        with signals_handled(self._on_signal, self.standstill.suspend, self.standstill.was_continued):
            try:
                self._loop.run()
                if self._load_failure is not None:
                    raise self._load_failure.error()
            finally:
                self.close()
                self._finish()
        return self.exit_code

    def close(self) -> None:
        """Nothing of the run stays alive behind this call. For a caller that never comes to `execute`."""
        self._store_patience.end()
        self._backend.close(self._stopping.seconds_to_close())
        self._keys.close()

    def request_stop(self, reason: str, *, at_once: bool = False, exit_code: ExitCode = ExitCode.INTERRUPTED) -> None:
        """Nothing new starts; running items stop at the next safe point, or now. Safe from any thread."""
        self._loop.post(lambda: self._stop(reason, at_once=at_once, exit_code=exit_code))

    def fault(self, reason: str) -> None:
        """A fault of the run itself: stop gracefully with what there is."""
        if reason in self._faults:
            return  # Several items may meet the same.
        self._faults.add(reason)
        self._stopping.blame_the_run()
        self._emit(RunFaulted(reason=reason))
        # A fault may come from within any emit, so stopping waits for the loop; that nothing new starts does not.
        actions = self._schedule.limit_changed(0)
        self._loop.post(lambda: self.perform(actions))
        self.request_stop(reason, exit_code=ExitCode.ITEM_FAILED)

    def node_of(self, item_id: str) -> str:
        """What the item does now; empty when it has not begun."""
        return self._running[item_id].node if item_id in self._running else ""

    def warn(self, text: str) -> None:
        """Tell of something that went wrong beside the run. Safe from any thread."""
        self._loop.post(lambda: self.warn_now(text))

    def warn_now(self, text: str) -> None:
        """For the loop's own thread, while it waits for something."""
        self._emit(Warned(text=text))

    def send(self, item_id: str, message: DownMessage) -> None:
        self._backend.send(item_id, message)

    def steer(self, act: Act) -> dict[str, Any]:
        """What a person wants of the run now. Raises ActRefused."""
        if not self.has_begun and (act.name, act.item_id) != ("stop", ""):
            raise NotYet("the run is just starting; try again in a moment")
        return self._steering.take(act)

    @property
    def schedule(self) -> Schedule:
        return self._schedule

    @property
    def running(self) -> Mapping[str, ItemRun]:
        return self._running

    @property
    def results(self) -> Results:
        return self._results

    def waiting_changed(self, waiting: set[str]) -> None:
        for item_id, run in self._running.items():
            run.watch.wait_for_key(item_id in waiting)

    def set_parallel(self, parallel: int) -> None:
        self._item_limit.limit_by_keys(parallel)

    def follow_limits(self) -> None:
        self._item_limit.follow()

    def want_parallel(self, parallel: int, reason: str) -> None:
        """A person wants so many at once."""
        self._item_limit.want(parallel, reason)
        self._keys.want(parallel)

    def _limit_changed(self, limit: int) -> None:
        self.perform(self._schedule.limit_changed(limit))

    def change_budget(self, cap_usd: float) -> bool:
        return self._keys.change_budget(cap_usd)

    def status(self) -> dict[str, Any]:
        """How the run is, in plain data."""
        money = self._keys.money
        withdrawn = self._schedule.withdrawn
        stopped = [
            item_id for item_id in self._schedule.left if item_id in withdrawn and item_id not in self._running
        ]
        return {
            "run": self._settings.run_id,
            "state": "stopping" if self.is_stopping else "paused" if self._steering.is_paused else "running",
            "paused_by": self._steering.paused_by,
            "parallel": {"wanted": self._item_limit.wanted, "now": self._schedule.limit},
            "total": len(self._items),
            "running": {
                item_id: {"node": run.node, "seconds": round(run.watch.seconds, 1)}
                for item_id, run in self._running.items()
            },
            "waiting_for_a_key": sorted(self._keys.waiting),
            "counts": counts_by_name(self._results.counts),
            "left": [item_id for item_id in self._schedule.left if item_id not in {*self._running, *stopped}],
            "stopped": stopped,
            "spent_usd": money and round(money[0], 6),
            "budget_usd": money and money[1],
        }

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        self._was_signalled = True
        is_second = self.is_stopping
        self._loop.post(lambda: self._stop(name, at_once=is_second or self.is_stopping))

    def _stop(self, reason: str, *, at_once: bool, exit_code: ExitCode = ExitCode.INTERRUPTED) -> None:
        if self._is_over or not self._stopping.request(exit_code, at_once=at_once):
            return
        if not self.has_begun:
            # What was to be done is on record, and how to do it: the graph may take long to load.
            self._begin_run()
        self._emit(StopRequested(reason=reason, at_once=at_once, has_workers=bool(self._running)))
        self._keys.run_stops()
        for item_id in self._standby:
            self._backend.kill(item_id)
        self.perform(self._schedule.stop(at_once=at_once))
        self._backend.hold_nothing_back()
        self._store_patience.end()
        waiting, self._waiting_for_graph = self._waiting_for_graph, []
        for start in waiting:
            self.perform(self._schedule.ended(start.item_id, Ending.INTERRUPTED))

    def _kill_the_rest(self) -> None:
        for run in self._running.values():
            run.kill()

    def _stood_still(self, since: float) -> None:
        for run in self._running.values():
            run.watch.stood_still(since)

    def perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Start():
                    self._start(action)
                case Stop(item_id=item_id) if item_id in self._running:
                    self._running[item_id].stop()
                case Kill(item_id=item_id) if item_id in self._running:
                    self._running[item_id].kill()
                case Stop() | Kill():
                    pass  # It has no worker: the graph is still loading.
                case Skip(item_id=item_id, dependency=dependency):
                    self._results.skipped(item_id, dependency)
                case Retry():
                    pass  # Said when the attempt ended, with its reason.
                case Finish():
                    self._is_over = True
                    self._loop.stop()

    def _start(self, start: Start) -> None:
        if not self._is_loaded:
            self._waiting_for_graph.append(start)
            return
        item_id = start.item_id
        run = self._running[item_id] = self._item_run(start)
        if not self._standby.hand_over(item_id, self):
            self._store_patience.when_it_answers(lambda: self._begin_attempt(start, run))

    def _begin_attempt(self, start: Start, run: ItemRun) -> None:
        item_id = start.item_id
        if run.is_stopping:
            # While the store was waited for; no worker was there to hear it.
            self.worker_gone(item_id, WorkerExit(code=-signal.SIGKILL))
            return
        if not self._is_loaded:
            del self._running[item_id]
            self._waiting_for_graph.append(start)
            return
        try:
            self._make_worker(item_id, start.attempt)
        except OSError as error:
            del self._running[item_id]
            self.fault(f"cannot start a worker: {error.strerror or error}")
            self.perform(self._schedule.ended(item_id, Ending.INTERRUPTED))
        except Exception as error:
            # Its input may come from a program, and hold what cannot be sent.
            del self._running[item_id]
            self.perform(self._schedule.ended(item_id, self._results.surprised(run, error)))

    def _item_run(self, start: Start) -> ItemRun:
        return ItemRun(
            self._items[start.item_id],
            start.attempt,
            self._backend,
            self._loop,
            self._emit,
            limits=self._settings.time_limits,
            hold_node=self._hold_node,
            on_at_work=self._standby.plan,
            is_unread=lambda: self.standstill.is_unread,
            is_paused=lambda: self._steering.is_paused,
        )

    def _make_worker(self, item_id: str, attempt: int) -> None:
        """Raises OSError when there is nothing to make it of: descriptors, memory."""
        self._backend.start(self._starts.message(item_id, attempt, self._keys.worker_environment(item_id)))

    def loading(self, pid: int, node: str = "") -> None:
        self._keys.worker_opened(loading_on(node), pid)

    def loaded(self, input_keys: list[str] | None, notice: str = "", node: str = "") -> None:
        self._is_loaded = True
        used = self._keys.worker_gone(loading_on(node))
        if not self.has_begun:
            wrong = unknown_input(self._plan, input_keys)
            if wrong:
                self.load_failed(LoadFailure(message=wrong))
                return
            self._begin_run(notice)
            self._item_limit.begin()
        if used.input_tokens or used.output_tokens:
            tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out, {dollars(used.cost_usd)}"
            self._emit(RunNoticed(text=f"loading the graph called models: {tokens}"))
        waiting, self._waiting_for_graph = self._waiting_for_graph, []
        self.perform(waiting)

    def _begin_run(self, notice: str = "") -> None:
        self.has_begun = True
        self._begin()
        if notice:
            self._emit(Warned(text=notice))
        self.perform(self._schedule.begin())

    def load_failed(self, failure: LoadFailure) -> None:
        if self.is_stopping:
            return
        if self.has_begun:
            self.fault(f"the graph no longer loads: {failure.message}" if failure.is_of_graph else failure.message)
            return
        self._load_failure = failure
        self._loop.stop()

    def lost(self, reason: str) -> None:
        self._is_loaded = False
        if self._stopping.is_under_way:
            return
        self._losses += 1
        if self._losses > _MOST_LOSSES:
            self.fault(f"{reason} {self._losses} times")
        else:
            self._emit(Warned(text=f"{reason}; starting another, its items resume from their checkpoints"))
            self._backend.load()

    def loading_wrote(self, block: bytes) -> None:
        for line in block.decode(errors="replace").splitlines():
            self._emit(Warned(text=f"while loading the graph: {line}"))

    def noticed(self, text: str) -> None:
        self._emit(Warned(text=text))

    def worker_reached(self, item_id: str, port: int) -> None:
        self._keys.worker_reached(item_id, port)

    def places_changed(self, count: int) -> None:
        self._item_limit.limit_by_backend(count)

    def failing(self, reason: str) -> None:
        if not self._stopping.is_under_way:
            self.fault(reason)

    def worker_said(self, item_id: str, message: UpMessage) -> None:
        with self._blamed_on(item_id):
            self._hear(item_id, message)

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        with self._blamed_on(item_id):
            if item_id in self._running:
                self._emit(OutputProduced(item_id=item_id, block=block))
            else:
                self._standby.hear(item_id, block)

    def worker_gone(self, item_id: str, end: WorkerExit) -> None:
        run = self._running.get(item_id)
        if run is None:
            self._standby.worker_gone(item_id, end)
            return
        mishap: Exception | None = None
        try:
            self._part_from_worker(run, end)
        except Exception as error:
            mishap = error
        self._store_patience.when_it_answers(lambda: self._conclude(run, end.code, mishap))

    @contextmanager
    def _blamed_on(self, item_id: str) -> Iterator[None]:
        """Whatever a worker's words lead to is its own item's failure at worst: the run goes on with the others."""
        try:
            yield
        except Exception as error:
            run = self._running.get(item_id)
            if run is None:
                self._backend.kill(item_id)
            else:
                run.give_up(surprise(error))

    def _hear(self, item_id: str, message: UpMessage) -> None:
        run = self._running.get(item_id)
        if run is None:
            self._standby.hear(item_id, message)
            return
        match message:
            case LeaseAsk() | LeaseCancel() | LeaseReturn():
                run.watch.hear()
                self._keys.take(item_id, message)
            case DocumentNamed(path=path):
                run.watch.hear()
                self.send(item_id, DocumentWriter(path=path, item_id=self._writers.writer_of(path, item_id)))
            case ItemOpened(pid=pid):
                if pid:
                    self._keys.worker_opened(item_id, pid)
                run.take(message)
            case CustomData(node=node, data=data):
                run.take(CustomData(**redact_record({"node": node, "data": data}, self._redactor)))
            case _:
                run.take(message)

    def _part_from_worker(self, run: ItemRun, end: WorkerExit) -> None:
        item_id = run.item.id
        run.worker_gone(end)
        if run.has_opened:
            self._starts.has_opened(item_id)
        run.usage = self._keys.worker_gone(item_id)

    def _conclude(self, run: ItemRun, exit_code: int | None, mishap: Exception | None) -> None:
        item_id = run.item.id
        if self._running.pop(item_id, None) is None:
            return  # Given up with the run.
        try:
            if mishap is not None:
                raise mishap
            ending = self._results.worker_gone(run, exit_code, may_retry=self._schedule.has_retries(item_id))
        except Exception as error:
            ending = self._results.surprised(run, error)
        self.perform(self._schedule.ended(item_id, ending))

    def _finish(self) -> None:
        self._standby.close()
        for run in self._running.values():
            self._results.given_up(run)
        self._running.clear()
        if self.has_begun:
            self._emitter.settle()
            self.exit_code = self._results.finish(self._stopping.exit_code, self._loop.now() - self._began)
        elif self._stopping.exit_code is not None:
            self.exit_code = self._stopping.exit_code
        self._emitter.close()


def _schedule(plan: Plan, settings: RunSettings, held: Mapping[str, str], done: Mapping[str, Done]) -> Schedule:
    return Schedule(
        [item.id for item in plan.items],
        plan.depends_on,
        limit=settings.parallel,
        retries=settings.retries,
        absent=[*held, *(i for i, note in done.items() if not note.outcome.is_done)],
        done=[i for i, note in done.items() if note.outcome.is_done],
        exclusive=plan.exclusive,
    )
