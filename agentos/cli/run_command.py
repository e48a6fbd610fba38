"""The one way from a command line to a run: what there is to do, its preview, its launch, its closing lines."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.cli import dry_run
from agentos.cli.options import capped
from agentos.cli.output import say, shown
from agentos.cli.preflight import Preflight, look_ahead
from agentos.engine.plan import Item, Plan, make_plan
from agentos.environment import environment
from agentos.errors import ExitCode, NoUsableKeyError, UsageError
from agentos.processes.loading import uncollected
from agentos.providers.registry import providers
from agentos.reporters.output_mode import OutputMode
from agentos.settings import Settings
from agentos.text.words import counted, listed, one_line
from agentos.workflows.pending import Reason, ReasonKind, Skipped
from agentos.workflows.registry import Workflow
from agentos.workflows.still_done import still_done

if TYPE_CHECKING:
    from agentos.events import ItemEnded, Listener
    from agentos.launch.request import RunRequest

StartRun = Callable[["RunRequest", "Listener | None"], int]


def start_run(request: RunRequest, listener: Listener | None) -> int:
    """Runs it. Returns the exit code."""
    from agentos.launch.launcher import Launcher  # noqa: PLC0415  A dry run needs none of it.

    return Launcher(request, listener).run().exit_code


def _as_it_is(request: RunRequest) -> RunRequest:
    return request


def _do_nothing() -> None:
    """For commands that have nothing to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a command makes of its flags. Nothing has been started or written.

    A command fills in what differs; `run` does what all commands have in common.
    """

    arguments: argparse.Namespace
    workflow: Workflow
    project_dir: Path
    settings: Settings
    plan: Plan
    noun: str = "item"
    missing: str = ""
    """What to say, and do, when there is not even something to skip."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Why each item would run."""
    skipped: Sequence[tuple[str, Reason]] = ()
    """Items that would not, and why."""
    batch: Sequence[str] = ()
    """All items that belong together, when the plan may be some of them."""
    warnings: Sequence[str] = ()
    notices: Sequence[str] = ()
    """What is worth a line although nothing is wrong."""
    notes: Sequence[str] = ()
    """Further lines of a dry run."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its JSON document."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What workers get beside the user's own environment."""
    environment_defaults: Mapping[str, str] = field(default_factory=dict)
    """What workers get unless the user's own environment says otherwise."""
    adjust: Callable[[RunRequest], RunRequest] = _as_it_is
    """Puts into the request what only this command knows of."""
    resume_verb: str | None = None
    """The verb that takes named items, where this command takes none."""
    further: Mapping[str, Any] | None = None
    """Options that take its done items from designs to code, where the same command does that."""
    open_work: Collection[str] = ()
    """What must be code before those that depend on it go there."""
    check: Callable[[], None] = _do_nothing
    """Raises before anything starts when what comes after the run could not be done."""
    start: StartRun = start_run
    close: Callable[[], None] = _do_nothing
    """The last lines and deeds, after a run that was not interrupted."""

    cap: Callable[[int], tuple[int, list[str]]] = capped
    """How many may run at once of those that are wanted, and what to say of it."""

    @property
    def parallel(self) -> int:
        return self._capped()[0]

    @property
    def all_warnings(self) -> list[str]:
        return [*self._capped()[1], *self.warnings]

    def _capped(self) -> tuple[int, list[str]]:
        """A cluster has limits of its own: its processors, `max_per_node`, what the keys carry."""
        if self.settings.cluster.backend != "local":
            return max(1, min(self._wanted_parallel, len(self.plan.items))), []
        return self.cap(self._wanted_parallel)

    @property
    def for_a_person(self) -> list[tuple[str, Reason]]:
        """What is skipped until somebody decides."""
        return [(item_id, reason) for item_id, reason in self.skipped if reason.kind.needs_person]

    @property
    def _wanted_parallel(self) -> int:
        wanted: int | None = self.arguments.parallel
        return wanted or self.settings.limits.parallel


def planned(arguments: argparse.Namespace, items: Sequence[Item]) -> tuple[Plan, Skipped]:
    """The plan of these items, as far as --limit lets it go, and what that leaves for later.

    What comes first in a plan depends on nothing that comes later.
    """
    plan = make_plan(items)
    limit: int | None = arguments.limit
    if limit is None:
        return plan, ()
    why = Reason(ReasonKind.BEYOND_LIMIT, str(limit))
    return make_plan(plan.items[:limit]), tuple((item.id, why) for item in plan.items[limit:])


def run(work: Work, listener: Listener | None = None) -> int:
    """Show the work, or do it. Returns the exit code."""
    if vars(work.arguments).get("cluster.address") and work.settings.cluster.backend == "local":
        raise UsageError('--address is for a cluster: add --backend ray, or set backend = "ray" under [cluster].')
    if work.arguments.dry_run:
        return preview(work)
    work.check()
    from agentos.cli.closing import Endings  # noqa: PLC0415  A dry run needs none of it.

    endings = Endings(listener)
    exit_code = launch(work, endings) if work.plan.items else say_nothing_to_do(work)
    if exit_code == ExitCode.OK and work.for_a_person:
        exit_code = ExitCode.NEEDS_ATTENTION
    if exit_code != ExitCode.INTERRUPTED:
        work.close()
        # Where standard output carries results or events, it carries nothing else.
        is_data = work.arguments.json or getattr(work.arguments, "output", None) == "-"
        say(*_painted(work, endings.by_item, 2 if is_data else 1), to_stderr=is_data)
    return exit_code


def _painted(work: Work, endings: Mapping[str, ItemEnded], descriptor: int) -> list[str]:
    """The closing lines as the stream shows them."""
    from agentos.cli.closing import closing_lines  # noqa: PLC0415  A dry run needs none of it.
    from agentos.reporters.painting import Painter, hyperlink  # noqa: PLC0415
    from agentos.text.terminal_kind import terminal_kind  # noqa: PLC0415

    kind = terminal_kind(environment(), is_tty=os.isatty(descriptor))

    def linked(path: Path) -> str:
        return hyperlink(shown(path), path)

    lines = closing_lines(work, endings, linked if kind.links else shown)
    return Painter(colour=kind.colour, many_colours=kind.many_colours).lines(lines)


def preview(work: Work) -> int:
    """List what would run. Returns the exit code."""
    _warn(work)
    ahead = _look_ahead(work)
    _check_prices(work, ahead.found.models, work.settings, environment())
    return dry_run.show(
        work.plan,
        work.workflow,
        work.project_dir,
        parallel=work.parallel,
        fresh=work.arguments.fresh,
        as_json=work.arguments.json,
        reasons=work.reasons,
        skipped=work.skipped,
        notes=work.notes,
        details=work.details,
        preflight=ahead,
        still_done=still_done(work.workflow.name, work.project_dir, work.settings),
    )


def _misspellings(models: Sequence[str]) -> list[str]:
    from agentos.llm.model_names import misspelling_words  # noqa: PLC0415  Loads the list of prices.

    return [words for model in models if (words := misspelling_words(model))]


def _look_ahead(work: Work) -> Preflight:
    count = len(work.plan.items)
    return look_ahead(work.workflow, work.settings, work.project_dir, environment(), count=count)


def launch(work: Work, listener: Listener | None = None) -> int:
    """Run every item. Returns the exit code."""
    with uncollected():
        from agentos.cli.resume import resume_template  # noqa: PLC0415  A dry run needs no engine.
        from agentos.workflows.run_request import RECORD_VARIABLE, request_for  # noqa: PLC0415

    arguments = work.arguments
    recorded = {RECORD_VARIABLE: arguments.record} if getattr(arguments, "record", None) else {}
    environ = {**work.environment_defaults, **environment(), **recorded, **work.environment}
    ahead = _look_ahead(work)
    request = request_for(work.workflow, work.plan, work.project_dir, work.settings, environ)
    if isinstance(ahead.problem, NoUsableKeyError):
        raise ahead.problem  # There are keys, and each is known to be rejected: items would only fail one by one.
    _check_prices(work, _models_of(work, request), request.settings, request.environment)
    _check_models(work, request)
    request = replace(
        request,
        parallel=work.parallel,
        timeout_seconds=arguments.timeout_seconds,
        stall_seconds=arguments.stall_seconds,
        retries=arguments.retry,
        fresh=arguments.fresh,
        start_method=arguments.start_method,
        budget_usd=arguments.budget,
        max_wait_seconds=arguments.max_wait,
        resume_command=resume_template(arguments, verb=work.resume_verb),
        preflight=ahead.found,
        warnings=[*work.all_warnings, *_misspellings(ahead.found.models)],
        notices=[*work.notices, *_skipped_lines(work)],
        is_json=arguments.json,
        output_mode=OutputMode(arguments.output_mode) if arguments.output_mode else None,
        shows_node=arguments.show_node,
        batch=work.batch,
    )
    return work.start(work.adjust(request), listener)


def _check_prices(work: Work, models: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> None:
    """Raises UsageError for what is no price, and when the budget could not count a model that will be called."""
    has_budget = work.arguments.budget is not None or settings.budget.usd_per_day is not None
    if not has_budget and not settings.prices.models:
        return
    from agentos.keys.refusals import price_missing  # noqa: PLC0415  Few runs have a budget.
    from agentos.llm import pricing  # noqa: PLC0415

    own = pricing.own_prices(settings.prices.models, settings.prices.unpriced)
    if not has_budget:
        return
    default = environ.get("AGENTOS_MODEL", "")
    if missing := pricing.without_price(models or filter(None, [default]), own):
        raise UsageError(price_missing(missing[0]))


def _check_models(work: Work, request: RunRequest) -> None:
    """Raises UsageError for a model that its provider does not have: every item would fail over it."""
    called = [model for model in _models_of(work, request) if model.partition(":")[0] in providers()]
    if not called:
        return
    from agentos.keys.credentials import load_credentials  # noqa: PLC0415  Only models of providers need all this.
    from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls  # noqa: PLC0415
    from agentos.llm.model_lookup import missing_models  # noqa: PLC0415
    from agentos.llm.settings import use_base_urls  # noqa: PLC0415

    credentials = load_credentials(environ=request.environment)
    urls = request.settings.provider_urls
    refuse_unconfirmed(unconfirmed_urls(urls, request.environment), {spec.provider for spec in credentials.specs})
    use_base_urls(urls)
    for model, words in missing_models(called, credentials.credentials).items():
        roles = [role for role in work.workflow.models if getattr(request.settings.models, role) == model]
        raise UsageError(unknown_model(model, roles, words))


def _models_of(work: Work, request: RunRequest) -> list[str]:
    return list(dict.fromkeys(getattr(request.settings.models, role) for role in work.workflow.models))


def unknown_model(model: str, roles: Sequence[str], words: str) -> str:
    """What to say of a model that its provider refuses, and where its name may come from."""
    from agentos.llm.model_names import misspelling_words  # noqa: PLC0415  Loads the list of prices.

    said = f' It says: "{one_line(words, 200).rstrip(".")}".' if words else ""
    flags = ", ".join(f"--{role}" for role in roles)
    settings = ", ".join(f"models.{role}" for role in roles)
    hint = misspelling_words(model).partition(". ")[2]
    correct = f"Correct {flags}, or {settings} in agentos.toml." if roles else "Correct its name."
    return " ".join(filter(None, [f"{model.partition(':')[0]} has no model {model}.{said}", hint, correct]))


def say_nothing_to_do(work: Work) -> int:
    """Returns the exit code."""
    _warn(work)
    if work.arguments.json:
        document = {
            "count": 0,
            "skipped": [{"id": item_id, "reason": str(reason)} for item_id, reason in work.skipped],
        }
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        lines = _skipped_lines(work) or [work.missing or f"No {work.noun}s were found."]
        sys.stdout.write("\n".join(["Nothing to do. " + lines[0], *lines[1:]]) + "\n")
    return ExitCode.OK


def _warn(work: Work) -> None:
    sys.stderr.write("".join(f"Warning: {warning}\n" for warning in work.all_warnings))


def _skipped_lines(work: Work) -> list[str]:
    """What waits for somebody gets a line of its own; of the rest a few are named."""
    rest = [(item_id, reason) for item_id, reason in work.skipped if not reason.kind.needs_person]
    lines = [f"{counted(len(rest), work.noun)} skipped: {_listed(rest)}"] if rest else []
    return lines + [
        f"{work.workflow.label_prefix}{item_id} is skipped: {reason}" for item_id, reason in work.for_a_person
    ]


_MOST_SKIPPED = 5
"""How many reasons are told, and how many items are named for each."""


def _listed(skipped: Sequence[tuple[str, Reason]]) -> str:
    """Items by reason, each reason once."""
    ids_by_reason: dict[str, list[str]] = {}
    for item_id, reason in skipped:
        ids_by_reason.setdefault(str(reason), []).append(item_id)
    told = list(ids_by_reason.items())[:_MOST_SKIPPED]
    words = ", ".join(f"{listed(ids, _MOST_SKIPPED)} ({reason})" for reason, ids in told)
    more = len(skipped) - sum(len(ids) for _reason, ids in told)
    return f"{words} and {more} more" if more else words
