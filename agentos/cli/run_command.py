"""What `lld-workflow` and `issue-workflow` share: one parser, one way from pending items to a run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.cli import dry_run
from agentos.cli.options import SHUTDOWN_HELP, add_engine_options, add_parallel_options, capped, whole_number
from agentos.cli.run import project_from, resume_command
from agentos.engine.plan import Plan, make_plan
from agentos.errors import NoUsableKeyError, UsageError
from agentos.events import Listener
from agentos.keys.credentials import load_credentials
from agentos.processes import host
from agentos.providers.registry import default_model, providers
from agentos.settings import Settings, load_settings
from agentos.text.words import counted
from agentos.workflows.context import FILE_VARIABLE
from agentos.workflows.drafting.pending import Pending, Wanted
from agentos.workflows.issue.filing import TOKEN_VARIABLES, filing_environment
from agentos.workflows.registry import WORKFLOWS, Workflow

Find = Callable[[Path, Settings, Wanted], Pending]


@dataclass(frozen=True, slots=True)
class DraftingCommand:
    """One of the two commands, in words."""

    workflow: str
    noun: str
    description: str
    find: Find
    can_file: bool = False
    """Whether its documents can be filed on GitHub."""


def add_options(parser: argparse.ArgumentParser, command: DraftingCommand) -> None:
    """Everything the command takes."""
    add_parallel_options(parser, default=None)
    add_document_options(parser, command)


def add_document_options(parser: argparse.ArgumentParser, command: DraftingCommand) -> None:
    """All but the parallel options, which the tools add by themselves."""
    parser.description = f"{command.description}\n\n{SHUTDOWN_HELP}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"work on these {command.noun}s only; globs too")
    parser.add_argument("--all", action="store_true", help=f"work on every pending {command.noun}")
    parser.add_argument("--drafter", metavar="MODEL", help="the model that writes, as provider:model, or offline")
    parser.add_argument("--reviewer", metavar="MODEL", help="the model that reviews (default: the drafter)")
    parser.add_argument(
        "--review",
        choices=("none", "draft", "verdict", "all"),
        help="park items for a person's decision at the draft, at the verdict, or at both (default: none)",
    )
    parser.add_argument("--max-rounds", type=whole_number, metavar="N", help="drafts before giving up (default: 5)")
    parser.add_argument("--record", metavar="DIR", help="save every model answer in DIR, to replay with `recorded`")
    add_engine_options(parser)
    if command.can_file:
        parser.add_argument(
            "--file",
            action="store_true",
            help="file approved issues on GitHub, once each, and move their briefs to the done folder",
        )
    else:
        parser.set_defaults(file=False)
    parser.set_defaults(handler=lambda arguments: run(arguments, command))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A command's answer to its flags: what would run, how, and why. Nothing has been started or written."""

    command: DraftingCommand
    arguments: argparse.Namespace
    project_dir: Path
    settings: Settings
    environment: Mapping[str, str]
    """What the flags add to the environment."""
    parallel: int
    pending: Pending
    plan: Plan
    warnings: Sequence[str]

    @property
    def workflow(self) -> Workflow:
        return WORKFLOWS[self.command.workflow]


def run(arguments: argparse.Namespace, command: DraftingCommand) -> int:
    prepared = prepare(arguments, command)
    if arguments.dry_run:
        return show_dry_run(prepared)
    if not prepared.plan.items:
        return say_nothing_to_do(prepared)
    return launch(prepared)


def prepare(arguments: argparse.Namespace, command: DraftingCommand) -> Prepared:
    """Read flags, settings and the backlog. Raises UsageError when they do not make sense."""
    if not arguments.ids and not arguments.all:
        raise UsageError(f"Nothing chosen: name {command.noun}s, or give --all for every pending one.")
    if arguments.ids and arguments.all:
        raise UsageError(f"--all and named {command.noun}s exclude each other.")
    project_dir = project_from(arguments.project, Path.cwd())
    environment = _flags_as_variables(arguments)
    settings = load_settings(project_dir, os.environ | environment)
    parallel, warnings = capped(arguments.parallel or settings.limits.parallel)
    wanted = Wanted(patterns=arguments.ids, is_fresh=arguments.fresh, is_filing=arguments.file)
    pending = command.find(project_dir, settings, wanted)
    return Prepared(
        command=command,
        arguments=arguments,
        project_dir=project_dir,
        settings=settings,
        environment=environment,
        parallel=parallel,
        pending=pending,
        plan=make_plan(pending.items),
        warnings=(*warnings, *pending.warnings, *_changes(pending, WORKFLOWS[command.workflow].label_prefix)),
    )


def _changes(pending: Pending, label_prefix: str) -> list[str]:
    """What is done again although it was done: people want to know why."""
    return [f"{label_prefix}{item_id}: {why}" for item_id, why in pending.reasons.items() if "changed since" in why]


def show_dry_run(prepared: Prepared) -> int:
    """List what would run. Returns the exit code."""
    for warning in prepared.warnings:
        sys.stderr.write(f"Warning: {warning}\n")
    return dry_run.show(
        prepared.plan,
        prepared.workflow.name,
        prepared.project_dir,
        parallel=prepared.parallel,
        fresh=prepared.arguments.fresh,
        as_json=prepared.arguments.json,
        label_prefix=prepared.workflow.label_prefix,
        reasons=prepared.pending.reasons,
        skipped=prepared.pending.skipped,
    )


def launch(prepared: Prepared, listener: Listener | None = None) -> int:
    """Run everything that is pending. Returns the exit code."""
    from agentos.launch import Launcher, RunRequest  # noqa: PLC0415  A dry run needs none of it.

    arguments, workflow = prepared.arguments, prepared.workflow
    drafter, reviewer = choose_models(prepared.settings)
    environment = _worker_environment(prepared) | {"AGENTOS_DRAFTER": drafter, "AGENTOS_REVIEWER": reviewer}
    skipped = prepared.pending.skipped
    left_alone = [f"{len(skipped)} left alone: {_listed(skipped)}"] if skipped else []
    request = RunRequest(
        plan=prepared.plan,
        workflow=workflow.name,
        graph=workflow.graph,
        project_dir=prepared.project_dir,
        search_dir=prepared.project_dir,
        parallel=prepared.parallel,
        timeout_seconds=arguments.timeout_seconds,
        stall_seconds=arguments.stall_seconds,
        retries=arguments.retry,
        fresh=arguments.fresh,
        fork=arguments.start_method == "forkserver" and host.CAN_FORK_SAFELY,
        budget_usd=arguments.budget,
        max_wait_seconds=arguments.max_wait,
        label_prefix=workflow.label_prefix,
        resume_command=resume_command(sys.argv),
        warnings=[*prepared.warnings, *left_alone],
        environment=environment,
        secrets=[environment[name] for name in TOKEN_VARIABLES if environment.get(name)],
        preload_providers=[model.partition(":")[0] for model in (drafter, reviewer)],
        is_json=arguments.json,
    )
    return Launcher(request, listener).run().exit_code


def choose_models(settings: Settings) -> tuple[str, str]:
    """Drafter and reviewer: as chosen, else by the keys at hand. Raises NoUsableKeyError before anything starts."""
    from agentos.llm.types import ModelName  # noqa: PLC0415  A dry run needs no model.

    with_keys = {spec.provider for spec in load_credentials().specs}
    drafter = settings.models.drafter or default_model(with_keys)
    reviewer = settings.models.reviewer or drafter
    if not drafter:
        raise NoUsableKeyError(
            "No model chosen and no key. Either add a key (agentos keys add NAME --provider google), "
            "or work without network: --drafter offline --reviewer offline."
        )
    for model in (drafter, reviewer):
        provider = ModelName.parse(model).provider
        if provider in providers() and provider not in with_keys:
            raise NoUsableKeyError(
                f"No key for {model}. Add one: agentos keys add NAME --provider {provider}; "
                "or work without network: --drafter offline --reviewer offline."
            )
    return drafter, reviewer


def _flags_as_variables(arguments: argparse.Namespace) -> dict[str, str]:
    """Flags as variables: the one way settings reach workers."""
    flags = {
        "AGENTOS_DRAFTER": arguments.drafter,
        "AGENTOS_REVIEWER": arguments.reviewer,
        "AGENTOS_REVIEW": arguments.review,
        "AGENTOS_MAX_ROUNDS": arguments.max_rounds,
        "AGENTOS_RECORD_DIR": str(Path(arguments.record).absolute()) if arguments.record else None,
    }
    if os.environ.get("AGENTOS_RECORDED_DIR"):
        # Workers work in the project's folder, whatever folder the user is in.
        flags["AGENTOS_RECORDED_DIR"] = str(Path(os.environ["AGENTOS_RECORDED_DIR"]).expanduser().absolute())
    return {name: str(value) for name, value in flags.items() if value is not None}


def _worker_environment(prepared: Prepared) -> dict[str, str]:
    """The user's environment with the flags in it. GitHub's tokens go along only where issues are to be filed."""
    environment = {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES}
    environment.pop(FILE_VARIABLE, None)
    environment |= prepared.environment
    if prepared.arguments.file:
        environment |= filing_environment(prepared.project_dir, prepared.settings.sources.issues, os.environ)
    return environment


def say_nothing_to_do(prepared: Prepared) -> int:
    """Returns the exit code."""
    skipped = prepared.pending.skipped
    for warning in prepared.warnings:
        sys.stderr.write(f"Warning: {warning}\n")
    if prepared.arguments.json:
        document = {"count": 0, "skipped": [{"id": item_id, "reason": reason} for item_id, reason in skipped]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        left = f": {_listed(skipped)}" if skipped else ""
        sys.stdout.write(f"Nothing to do. {counted(len(skipped), prepared.command.noun)} left alone{left}\n")
    return 0


def _listed(skipped: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{item_id} ({reason})" for item_id, reason in skipped[:5])
    return shown + (f" and {len(skipped) - 5} more" if len(skipped) > 5 else "")
