"""Puts a run together: its folder, reporters, claims and loop. The same for every command and for callers."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentos.database import URL_VARIABLES
from agentos.engine import removed_variables
from agentos.engine.backends.forkserver.backend import ForkServerBackend
from agentos.engine.backends.protocol import Backend, BackendEvents, WorkerSetup
from agentos.engine.checkpoints import access_of, forget_set_aside, outlived, probe_of, store_for, waiting_as_a_run
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import Claims, FileClaims, claim_name, claims_of, take_claims
from agentos.engine.control import ControlServer
from agentos.engine.coordinator import Coordinator
from agentos.engine.done_notes import Done, StillDone, always, notes_of
from agentos.engine.interpreter import Interpreter
from agentos.engine.item_run import HoldNode, hold_nothing
from agentos.engine.item_watch import TimeLimits
from agentos.engine.lease_server import LeaseServer, RunControl
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.loop import Loop
from agentos.engine.plan import Item, Plan, item_hash
from agentos.engine.run_settings import RunSettings
from agentos.engine.signals import signals_handled, stops_deferred
from agentos.engine.store_patience import StorePatience
from agentos.errors import ExitCode, UsageError
from agentos.events import Listener, RunNoticed, Stamped, Warned
from agentos.files import remove_all, remove_empty, write_private
from agentos.gateway.environment import upstream_urls
from agentos.keys.broker import KeyBroker
from agentos.keys.budget import Budget
from agentos.keys.credentials import LIMIT_VARIABLE, CredentialSet, load_credentials, load_salt, scrubbed
from agentos.keys.day_budget import day_budget
from agentos.keys.key_file import KeyFile
from agentos.keys.memory import LimitMemory
from agentos.keys.redaction import Redactor
from agentos.keys.refusals import Patience
from agentos.keys.send_log import SendLog
from agentos.llm import in_worker
from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
from agentos.llm.keyless import with_keyless
from agentos.llm.settings import MODEL_PRICES_VARIABLE, UNPRICED_VARIABLE
from agentos.paths import results_lock_path, store_path
from agentos.preflight import PreflightDone
from agentos.processes import host
from agentos.providers.addresses import is_on_this_machine
from agentos.providers.provider import base_url_variable
from agentos.providers.registry import providers
from agentos.records.runs import KEPT_DAYS, Taken, create_run_dir, hold_run_lock, holders_of, prune
from agentos.reporters.audit import AuditReporter
from agentos.reporters.logs import LogReporter
from agentos.reporters.output_mode import OutputMode
from agentos.reporters.results import ResultsReporter
from agentos.reporters.resume_line import KEPT_INPUT, with_run_dir
from agentos.reporters.summary import SummaryReporter
from agentos.run_gateway import RunGateway
from agentos.run_output import RunOutput
from agentos.settings import FROZEN_VARIABLE, Settings, freeze, with_environment
from agentos.text.words import listed

if TYPE_CHECKING:
    from agentos.keys.shared_pool import SharedPool
    from agentos.run_notify import Notifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Everything a command decides about a run."""

    plan: Plan
    workflow: str
    graph: str
    project_dir: Path
    search_dir: Path
    settings: Settings
    """Read once, by the command: workers are sent these."""
    environment: Mapping[str, str]
    """The user's, with what the command adds to it."""
    parallel: int = 1
    timeout_seconds: float = 1800.0
    stall_seconds: float = 60.0
    retries: int = 0
    fresh: bool = False
    start_method: str = "forkserver"
    """How workers are made, as `--start-method` calls it."""
    budget_usd: float | None = None
    max_wait_seconds: float | None = None
    label_prefix: str = ""
    resume_command: str = ""
    """What resumes it, with places for what only its end tells: see `reporters.resume_line`."""
    piped_input: str = ""
    """What came through standard input: kept with the run's records, where the line that resumes it finds it."""
    preflight: PreflightDone | None = None
    """What was found before the start, to be told first."""
    notices: Sequence[str] = ()
    """What to tell before the first item starts; nothing of it is wrong."""
    warnings: Sequence[str] = ()
    credentials: CredentialSet | None = None
    """Keys to use instead of the user's own."""
    secrets: Sequence[str] = ()
    """What workers may know beside keys, and nobody may see."""
    needed_models: Sequence[str] = ()
    """Without one of these no item can be done."""
    preload_providers: Sequence[str] | None = None
    """Providers this run will call; None when only the graph knows."""
    hold_node: HoldNode = hold_nothing
    """Asked before each node; an item that it holds resumes later."""
    still_done: StillDone = always
    """Asked of each item that an earlier run of the batch noted as done."""
    is_quiet: bool = False
    """For callers with a listener of their own: nothing on the console."""
    batch: Sequence[str] = ()
    """All items that belong together, in the order of the input, when the plan may be some of them."""
    hands_out_results: bool = False
    """Keep what each item's graph came to, for `runs result`."""
    results_target: Path | None = None
    """Where else results go; `-` is standard output, which then carries nothing else."""
    results_in_order: bool = False
    """Of the input."""
    graph_options: Mapping[str, Any] = field(default_factory=dict)
    """How workers run the graph; plain data."""
    pass_env: Sequence[str] = ()
    """Variables that workers get though they hold keys."""
    python: Interpreter | None = None
    """What workers run under; None is what we run under."""
    output_mode: OutputMode | None = None
    """What the console tells; None is what suits the terminal."""
    stages: Sequence[str] = ()
    """The graph's nodes in the order an item meets them. Empty: only the graph knows."""
    is_json: bool = False
    """Standard output carries the event stream; people's text goes to standard error."""
    shows_node: bool = False
    """Lines of the console say which node of a cluster their item is on."""

    @property
    def has_budget(self) -> bool:
        """Of its own or of the home's."""
        return self.budget_usd is not None or self.settings.budget.usd_per_day is not None


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
            keys = _Keys(request)
            passing_on = _passing_on(request)
            urls, endpoint_warnings = _usable_urls(request, keys.providers)
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
            gateway = _gateway(request, keys, loop, urls)
            patience = StorePatience(
                loop, probe_of(request.project_dir, on_wait=self._warn, is_hurried=lambda: self._is_hurried)
            )
            notifier = self._notifier(cleanup, run_dir, keys)
            setup = _worker_setup(request, run_dir.name, urls, keys, gateway)
            run = Coordinator(
                _with_own_settings(request.plan, request.settings),
                _settings(request, run_dir),
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
                backend=lambda events: _backend(request, loop, events, setup, claims, keys.redactor),
                keys=lambda control, emit: _lease_server(request, keys, loop, control, emit, gateway, patience),
                redactor=keys.redactor,
                store_patience=patience,
                hold_node=request.hold_node,
            )
            cleanup.enter_context(
                waiting_as_a_run(request.project_dir, on_wait=run.warn_now, is_hurried=lambda: run.is_hurried)
            )
            run.standstill.display = output
            warnings = [*keys.warnings, *endpoint_warnings, *passing_on, *output.warnings]
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

    def _notifier(self, cleanup: ExitStack, run_dir: Path, keys: _Keys) -> Notifier | None:
        notify = self._request.settings.notify
        if not notify.command and not notify.desktop:
            return None
        from agentos.run_notify import Notifier  # noqa: PLC0415  Few ask to be told.

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


def _backend(
    request: RunRequest, loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: Claims, redactor: Redactor
) -> Backend:
    fork = request.start_method == "forkserver" and host.CAN_FORK_SAFELY
    if request.settings.cluster.backend == "ray":
        return _ray_backend(request, loop, events, setup, claims, redactor)
    return ForkServerBackend(loop, events, setup, fork=fork, claims_fd=claims.fileno(), redactor=redactor)


def _ray_backend(
    request: RunRequest, loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: Claims, redactor: Redactor
) -> Backend:
    from agentos.engine.backends.ray.backend import RayBackend  # noqa: PLC0415  Few runs have a cluster.
    from agentos.engine.backends.ray.joining import cluster_plan  # noqa: PLC0415

    cluster = request.settings.cluster
    return RayBackend(
        loop,
        events,
        setup,
        cluster_plan(
            cluster.address,
            parallel=request.parallel,
            max_per_node=cluster.max_per_node,
            resources=cluster.resources,
            makes_environment=cluster.env == "make",
        ),
        project_dir=request.project_dir,
        fork=request.start_method == "forkserver",
        claims_fd=claims.fileno(),
        redactor=redactor,
    )


def _listen(cleanup: ExitStack, run_dir: Path, loop: Loop, run: Coordinator) -> list[str]:
    """Let people steer the run. What to tell when they cannot."""
    try:
        cleanup.callback(ControlServer(run_dir, loop, run.steer).close)
    except OSError as error:
        return [f"this run cannot be steered while it is under way: {error.strerror or error}"]
    return []


def _finish_notifying(notifier: Notifier, exit_code: ExitCode) -> None:
    """Whoever has stopped the run by hand does not wait for messages to themselves."""
    from agentos.run_notify import LAST_SECONDS  # noqa: PLC0415  Loaded with the notifier.

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


class _Keys:
    """The user's keys as the run begins, and what must not be seen of them."""

    def __init__(self, request: RunRequest) -> None:
        own = load_credentials(environ=request.environment)
        self.credentials = own if request.credentials is None else request.credentials
        self._all = (_without_limit(own, request.environment), self.credentials)
        self._called = request.preload_providers
        self.memory = LimitMemory()
        self.redactor = Redactor([*(s for each in self._all for s in each.secrets.values()), *request.secrets])

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys(spec.provider for spec in self.credentials.specs))

    @property
    def warnings(self) -> list[str]:
        called = self._called
        unset = [each.reason for each in self.credentials.missing if called is None or each.spec.provider in called]
        return [*self.credentials.warnings, *unset, *self.memory.warnings]

    def scrub(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment without keys, nor the address of the database: workers are sent that in a message."""
        scrubbed_environment = {name: value for name, value in environment.items() if name not in URL_VARIABLES}
        for each in self._all:
            scrubbed_environment = scrubbed(scrubbed_environment, each)
        return scrubbed_environment


def _lease_server(
    request: RunRequest,
    keys: _Keys,
    loop: Loop,
    control: RunControl,
    emit: Listener,
    gateway: RunGateway,
    store_patience: StorePatience,
) -> LeaseServer:
    priorities = {item.id: item.priority for item in request.plan.items}
    own_file = KeyFile(load=lambda: with_keyless(load_credentials(environ=request.environment)))
    broker = KeyBroker(
        with_keyless(keys.credentials),
        emit=emit,
        memory=keys.memory,
        sends=SendLog() if keys.credentials.credentials else None,
        salt=load_salt() if keys.credentials.credentials else b"",
        pool=_shared_pool(keys) if keys.credentials.credentials else None,
        budget=_budget(request, store_patience),
        day_budget=day_budget(request.settings.budget.usd_per_day),
        patience=_patience(request.max_wait_seconds),
        key_file=own_file if request.credentials is None else None,
        priority_of=lambda owner: priorities.get(owner, 0),
        on_reload=lambda changed: keys.redactor.add(changed.secrets.values()),
    )
    return LeaseServer(
        broker,
        control,
        loop,
        emit,
        parallel=request.parallel,
        needed_models=request.needed_models,
        gateway=gateway,
    )


def _shared_pool(keys: _Keys) -> SharedPool | None:
    from agentos.keys.shared_pool import shared_pool  # noqa: PLC0415  Only whoever has keys shares a pool.

    return shared_pool(with_keyless(keys.credentials), load_salt())


def _gateway(request: RunRequest, keys: _Keys, loop: Loop, urls: Mapping[str, str]) -> RunGateway:
    """For model calls of workers, and for clients of the graph's own, of the providers that there are keys of."""
    return RunGateway(
        loop,
        served=_served(request, keys),
        environment=request.environment,
        passed=request.pass_env,
        process_environment=keys.scrub(_workers_environment(request, urls, keys.providers)),
    )


def _served(request: RunRequest, keys: _Keys) -> list[str]:
    """Of whom clients find the gateway. Where the models are known, clients have a login of their own."""
    return keys.providers if request.preload_providers is None else []


def _budget(request: RunRequest, store_patience: StorePatience) -> Budget | None:
    """With what the runs that this one resumes have spent."""
    if request.budget_usd is None:
        return None
    notes = notes_of(request.project_dir, request.workflow)
    if request.fresh:
        notes.forget_spent()

    def note_spent(spent_usd: float) -> None:
        # What cannot be noted is counted for this run at least.
        def note() -> None:
            with suppress(OSError):
                notes.note_spent(spent_usd)

        store_patience.when_it_answers(note)

    return Budget(request.budget_usd, notes.spent_usd(), note_spent)


def _patience(max_wait_seconds: float | None) -> Patience | None:
    return None if max_wait_seconds is None else Patience(max_wait_seconds, f"--max-wait {max_wait_seconds}")


def _remove_unless(is_used: Callable[[], bool], run_dir: Path) -> None:
    if not is_used():
        shutil.rmtree(run_dir, ignore_errors=True)
        remove_empty(run_dir.parent)


def _without_limit(credentials: CredentialSet, environ: Mapping[str, str]) -> CredentialSet:
    """Keys that AGENTOS_CREDENTIAL_LIMIT keeps out of the pool are secrets all the same."""
    if not environ.get(LIMIT_VARIABLE):
        return credentials
    return load_credentials(environ={name: value for name, value in environ.items() if name != LIMIT_VARIABLE})


def _workers_environment(request: RunRequest, urls: Mapping[str, str], held: Collection[str]) -> dict[str, str]:
    """What the command decided, with the settings of the run and the base URLs its calls go to.

    All of them: the variables that an SDK would look at lead its clients to the gateway.
    """
    endpoints = {base_url_variable(name): url for name, url in upstream_urls(request.environment, urls, held).items()}
    prices = request.settings.prices
    own_prices = {MODEL_PRICES_VARIABLE: ",".join(prices.models), UNPRICED_VARIABLE: prices.unpriced}
    return {**request.environment, **endpoints, **own_prices, FROZEN_VARIABLE: freeze(request.settings)}


def _with_own_settings(plan: Plan, settings: Settings) -> Plan:
    """Items whose environment sets something are sent settings of their own."""
    return replace(plan, items=tuple(_with_settings(item, settings) for item in plan.items))


def _with_settings(item: Item, settings: Settings) -> Item:
    if not item.environment:
        return item
    own = with_environment(settings, item.environment)
    return item if own == settings else replace(item, environment={**item.environment, FROZEN_VARIABLE: freeze(own)})


def _usable_urls(request: RunRequest, held: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Base URLs for this run, and what to tell of them. Raises UsageError when keys would go to a stranger."""
    urls = request.settings.provider_urls
    unconfirmed = unconfirmed_urls(urls, request.environment)
    refuse_unconfirmed(unconfirmed, held)
    told = [
        f"agentos.toml sends {name} calls, and your {name} keys with them, to {url}"
        for name, url in unconfirmed.items()
        if name in held
    ]
    # A key that is added while the run goes on must not go there either.
    usable = {n: url for n, url in urls.items() if n not in unconfirmed or is_on_this_machine(url)}
    return usable, told


def _worker_setup(
    request: RunRequest, run_id: str, urls: Mapping[str, str], keys: _Keys, gateway: RunGateway
) -> WorkerSetup:
    environment = _workers_environment(request, urls, keys.providers)
    clients = gateway.shared_environment()
    return WorkerSetup(
        run_id=run_id,
        graph=request.graph,
        search_dir=request.search_dir,
        checkpoint_address=store_for(request.project_dir).address(ItemRef(request.workflow, "")),
        environment=_without_keys(environment, keys, request.pass_env, clients),
        python=request.python.path if request.python else None,
        extension=in_worker.EXTENSION,
        extension_options=_preloads(request, keys.providers, gateway),
        service_port=gateway.port,
        service_variables=frozenset(clients),
    )


def _without_keys(
    environment: dict[str, str], keys: _Keys, passed: Collection[str], clients: Mapping[str, str]
) -> dict[str, str]:
    """What workers get: tokens for keys. Those who miss a variable are told that it was taken away."""
    kept = {**keys.scrub(environment), **clients, **{name: environment[name] for name in passed}}
    removed = sorted(name for name in environment if name not in kept)
    return {**kept, removed_variables.VARIABLE: ",".join(removed)}


def _passing_on(request: RunRequest) -> list[str]:
    """What to tell of variables that workers get though they may hold keys. Raises UsageError for one not set."""
    for name in request.pass_env:
        if name not in request.environment:
            raise UsageError(f"--pass-env {name}: it is not set. Export it, or put it into the env file.")
    if not request.pass_env:
        return []
    unseen = "the pool and the budget do not see" if request.has_budget else "the pool does not see"
    return [f"workers get {listed(list(request.pass_env))}: {unseen} what they call with it"]


def _preloads(request: RunRequest, held: Sequence[str], gateway: RunGateway) -> dict[str, Any]:
    """Whose SDKs to load before workers are made: what the command says, else what its model and keys suggest."""
    callable_names = [*held, *(name for name, each in providers().items() if not each.needs_key and name not in held)]
    port = gateway.port if held else 0
    if request.preload_providers is not None:
        called = [name for name in callable_names if name in request.preload_providers]
        return in_worker.preload_options(providers=called, gateway_port=port)
    default = request.environment.get("AGENTOS_MODEL", "").partition(":")[0]
    likely = [name for name in callable_names if default == name or (name in held and not default)]
    is_unseen = request.has_budget and not held
    return in_worker.preload_options(if_used=likely, has_budget=is_unseen, gateway_port=port)


def _settings(request: RunRequest, run_dir: Path) -> RunSettings:
    return RunSettings(
        run_id=run_dir.name,
        workflow=request.workflow,
        project_dir=request.project_dir,
        parallel=request.parallel,
        time_limits=TimeLimits(
            timeout_seconds=request.timeout_seconds,
            stall_seconds=request.stall_seconds,
            heartbeat_seconds=min(5.0, request.stall_seconds / 4),
        ),
        retries=request.retries,
        fresh=request.fresh,
        prepares_ahead=request.settings.cluster.backend == "local",
        batch=tuple(request.batch),
        graph_options={
            **request.graph_options,
            "result": request.hands_out_results,
            "store": str(store_path(request.project_dir, request.workflow)),
        },
        label_prefix=request.label_prefix,
        resume_command=with_run_dir(request.resume_command, run_dir),
        folder=str(Path.cwd()),
        budget_usd=request.budget_usd,
        python=str(request.python or ""),
    )


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
