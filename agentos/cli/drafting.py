"""What `lld-workflow` and `issue-workflow` share: one parser, one way from pending items to a run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.cli import dry_run
from agentos.cli.options import SHUTDOWN_HELP, add_engine_options, add_parallel_options, capped, whole_number
from agentos.cli.run import project_from, resume_command
from agentos.errors import NoUsableKeyError, UsageError
from agentos.keys.credentials import load_credentials
from agentos.settings import Settings, load_settings
from agentos.workflows.drafting.pending import Pending
from agentos.workflows.parallel import host
from agentos.workflows.plan import make_plan
from agentos.workflows.registry import WORKFLOWS

DEFAULT_MODELS = {
    "google": "google:gemini-3-pro",
    "anthropic": "anthropic:claude-sonnet-5",
    "openai": "openai:gpt-5.1",
}
"""What is used for a provider the user has a key of, when no model is chosen."""
_KEYLESS = ("offline", "recorded")

Find = Callable[..., Pending]


@dataclass(frozen=True, slots=True)
class DraftingCommand:
    """One of the two commands, in words."""

    workflow: str
    noun: str
    description: str
    find: Find


def add_options(parser: argparse.ArgumentParser, command: DraftingCommand) -> None:
    """Everything the command takes; the same for the console script, `agentos` and the tools."""
    parser.description = f"{command.description}\n\n{SHUTDOWN_HELP}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"work on these {command.noun}s only; globs too")
    parser.add_argument("--all", action="store_true", help=f"work on every pending {command.noun}")
    add_parallel_options(parser)
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
    parser.set_defaults(handler=lambda arguments: run(arguments, command))


def run(arguments: argparse.Namespace, command: DraftingCommand) -> int:
    if not arguments.ids and not arguments.all:
        raise UsageError(f"Nothing chosen: name {command.noun}s, or give --all for every pending one.")
    if arguments.ids and arguments.all:
        raise UsageError(f"--all and named {command.noun}s exclude each other.")
    parallel, warnings = capped(arguments.parallel)
    project_dir = project_from(arguments.project, Path.cwd())
    environment = _environment(arguments)
    settings = load_settings(project_dir, environment)
    pending = command.find(project_dir, settings, arguments.ids, fresh=arguments.fresh)
    warnings += pending.warnings
    plan = make_plan(pending.items)
    workflow = WORKFLOWS[command.workflow]
    if arguments.dry_run:
        for warning in warnings:
            sys.stderr.write(f"Warning: {warning}\n")
        return dry_run.show(
            plan,
            workflow.name,
            project_dir,
            parallel=parallel,
            fresh=arguments.fresh,
            as_json=arguments.json,
            label_prefix=workflow.label_prefix,
            reasons=pending.reasons,
            skipped=pending.skipped,
        )
    if not plan.items:
        return _say_nothing_to_do(command, pending, as_json=arguments.json)
    drafter, reviewer = choose_models(settings)
    environment |= {"AGENTOS_DRAFTER": drafter, "AGENTOS_REVIEWER": reviewer}
    if pending.skipped:
        warnings.append(f"{len(pending.skipped)} left alone: {_listed(pending.skipped)}")
    from agentos.workflows.launch import Launcher, RunRequest  # noqa: PLC0415  A dry run needs none of it.

    request = RunRequest(
        plan=plan,
        workflow=workflow.name,
        graph=workflow.graph,
        project_dir=project_dir,
        search_dir=project_dir,
        parallel=parallel,
        timeout_seconds=arguments.timeout_seconds,
        stall_seconds=arguments.stall_seconds,
        retries=arguments.retry,
        fresh=arguments.fresh,
        fork=arguments.start_method == "forkserver" and host.CAN_FORK_SAFELY,
        budget_usd=arguments.budget,
        max_wait_seconds=arguments.max_wait,
        label_prefix=workflow.label_prefix,
        resume_command=resume_command(sys.argv),
        warnings=warnings,
        environment=environment,
        preload_providers=[model.partition(":")[0] for model in (drafter, reviewer)],
        is_json=arguments.json,
    )
    return Launcher(request).run().exit_code


def choose_models(settings: Settings) -> tuple[str, str]:
    """Drafter and reviewer: as chosen, else by the keys at hand. Raises NoUsableKeyError before anything starts."""
    providers = list(dict.fromkeys(credential.spec.provider for credential in load_credentials().credentials))
    default = next((DEFAULT_MODELS[p] for p in DEFAULT_MODELS if p in providers), "")
    drafter = settings.models.drafter or default
    reviewer = settings.models.reviewer or drafter
    if not drafter:
        raise NoUsableKeyError(
            "No model chosen and no key. Either add a key (agentos keys add NAME --provider google), "
            "or work without network: --drafter offline --reviewer offline."
        )
    for model in (drafter, reviewer):
        provider = model.partition(":")[0]
        if provider in DEFAULT_MODELS and provider not in providers:
            raise NoUsableKeyError(
                f"No key for {model}. Add one: agentos keys add NAME --provider {provider}; "
                "or work without network: --drafter offline --reviewer offline."
            )
        if provider not in (*DEFAULT_MODELS, *_KEYLESS, "cli"):
            raise UsageError(f"Unknown model {model!r}: write provider:model (google, openai, anthropic) or offline.")
    return drafter, reviewer


def _environment(arguments: argparse.Namespace) -> dict[str, str]:
    """Flags as variables: the one way settings reach workers."""
    flags = {
        "AGENTOS_DRAFTER": arguments.drafter,
        "AGENTOS_REVIEWER": arguments.reviewer,
        "AGENTOS_REVIEW": arguments.review,
        "AGENTOS_MAX_ROUNDS": arguments.max_rounds,
        "AGENTOS_FILE_ISSUES": "1" if getattr(arguments, "file", False) else None,
        "AGENTOS_RECORD_DIR": str(Path(arguments.record).absolute()) if arguments.record else None,
    }
    return dict(os.environ) | {name: str(value) for name, value in flags.items() if value is not None}


def _say_nothing_to_do(command: DraftingCommand, pending: Pending, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"count": 0, "skipped": [list(entry) for entry in pending.skipped]}) + "\n")
    else:
        left = f": {_listed(pending.skipped)}" if pending.skipped else ""
        sys.stdout.write(f"Nothing to do. {len(pending.skipped)} {command.noun}s left alone{left}\n")
    return 0


def _listed(skipped: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{item_id} ({reason})" for item_id, reason in skipped[:5])
    return shown + (f" and {len(skipped) - 5} more" if len(skipped) > 5 else "")
