"""`agentos implement`: approved designs become branches with passing tests."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace

from agentos.cli import branches as merging
from agentos.cli import dry_run
from agentos.cli import run_command as drafting
from agentos.cli.options import (
    SHUTDOWN_HELP,
    add_branch_options,
    add_engine_options,
    add_parallel_options,
    add_round_options,
)
from agentos.errors import ExitCode
from agentos.events import Listener
from agentos.settings import load_settings
from agentos.workflows.context import ALLOW_UNAPPROVED_VARIABLE
from agentos.workflows.implementation.pending import Choices, Conflicts, find_conflicts, find_designs

_NOUN = "design"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_options(subparsers.add_parser("implement", help="turn approved designs into branches with passing tests"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Everything the command takes."""
    add_parallel_options(parser, default=None)
    add_design_options(parser)


def add_design_options(parser: argparse.ArgumentParser) -> None:
    """All but the options of `add_parallel_options`, which the tool adds itself."""
    parser.description = (
        "Implement each approved low-level design on a branch of its own: tests first, seen to fail, then code until "
        f"they pass.\n\n{SHUTDOWN_HELP}"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("ids", nargs="*", metavar="ID", help="implement these designs only; globs too")
    parser.add_argument("--all", action="store_true", help="implement every approved design that is not implemented")
    add_model_options(parser)
    add_code_options(parser)
    add_engine_options(parser)
    parser.set_defaults(handler=run, review=None, file=False)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--drafter", metavar="MODEL", help="the model that writes, as provider:model, or offline")
    parser.add_argument(
        "--coder", metavar="MODEL", help="the model that writes tests and code (default: the drafter)"
    )
    parser.add_argument("--reviewer", metavar="MODEL", help="the model that reviews (default: the drafter)")
    parser.add_argument("--record", metavar="DIR", help="save every model answer in DIR, to replay with `recorded`")


def add_code_options(parser: argparse.ArgumentParser) -> None:
    """How code is written and what becomes of it."""
    add_round_options(parser)
    parser.add_argument(
        "--base", metavar="REV", help="where branches start (default: HEAD, or a dependency's branch)"
    )
    parser.add_argument(
        "--allow-unapproved",
        action="store_true",
        help="also implement designs that are not approved or changed since; the report says so",
    )
    parser.add_argument(
        "--wait-for-merge",
        action="store_true",
        help="leave a design alone until what it depends on is merged (default: build on its branch)",
    )
    add_branch_options(parser)


@dataclass(frozen=True, slots=True)
class PreparedCode:
    """What would run, and how the items get in each other's way."""

    prepared: drafting.Prepared
    conflicts: Conflicts

    def branches(self) -> merging.CodeRun:
        """What to say and do about the branches afterwards."""
        prepared, arguments = self.prepared, self.prepared.arguments
        return merging.CodeRun(
            project_dir=prepared.project_dir,
            settings=prepared.settings,
            titles=merging.titles_of(prepared.plan, prepared.pending.skipped),
            label_prefix=prepared.workflow.label_prefix,
            pushes=arguments.push,
            opens_pull_requests=arguments.pr,
            is_json=arguments.json,
        )


def run(arguments: argparse.Namespace) -> int:
    return run_prepared(prepare(arguments))


def run_prepared(code: PreparedCode) -> int:
    """Do what was prepared: list it, or run it. Returns the exit code."""
    if code.prepared.arguments.dry_run:
        return show_dry_run(code)
    merging.check_publishing(code.branches())
    if not code.prepared.plan.items:
        merging.publish_all(code.branches())
        return drafting.say_nothing_to_do(code.prepared)
    return launch(code)


def launch(code: PreparedCode, listener: Listener | None = None) -> int:
    """Run everything that is pending, then say how the branches merge. Returns the exit code."""
    exit_code = drafting.launch(code.prepared, listener)
    if exit_code == ExitCode.INTERRUPTED:
        return exit_code
    merging.show_overlaps(code.branches(), code.conflicts)
    merging.show_branches(code.branches(), code.conflicts.merge_order)
    merging.publish_all(code.branches())
    return exit_code


def prepare(arguments: argparse.Namespace) -> PreparedCode:
    """Read flags, settings and designs. Raises UsageError when they do not make sense."""
    choices = Choices(allows_unapproved=arguments.allow_unapproved, waits_for_merge=arguments.wait_for_merge)
    command = drafting.DraftingCommand(
        workflow="implementation",
        noun=_NOUN,
        description="",
        find=lambda project_dir, settings, wanted: find_designs(project_dir, settings, wanted, choices),
    )
    return with_code_options(drafting.prepare(arguments, command))


def with_code_options(prepared: drafting.Prepared) -> PreparedCode:
    """The flags of `add_code_options` and `add_model_options` put to work."""
    arguments = prepared.arguments
    flags = {
        "AGENTOS_CODER": arguments.coder,
        "AGENTOS_IMPLEMENTATION__MAX_ROUNDS": arguments.max_rounds,
        "AGENTOS_IMPLEMENTATION__BASE": arguments.base,
        "AGENTOS_IMPLEMENTATION__COMMITS": arguments.commits,
        ALLOW_UNAPPROVED_VARIABLE: "1" if arguments.allow_unapproved else None,
    }
    environment = {**prepared.environment, **{name: str(value) for name, value in flags.items() if value is not None}}
    conflicts = find_conflicts(prepared.plan)
    rivals = {} if arguments.allow_overlap else conflicts.rivals()
    warnings = list(prepared.warnings)
    if not arguments.dry_run:
        prefix = prepared.workflow.label_prefix
        warnings += merging.overlap_warnings(conflicts, prefix, is_allowed=arguments.allow_overlap)
    settings = load_settings(prepared.project_dir, os.environ | environment)
    models = settings.models
    if prepared.workflow.name == "implementation":
        # Here only the coder writes: it is the model that must have a key.
        settings = replace(settings, models=replace(models, drafter=models.coder or models.drafter))
    return PreparedCode(
        replace(
            prepared,
            environment=environment,
            settings=settings,
            plan=replace(prepared.plan, exclusive=rivals),
            warnings=warnings,
        ),
        conflicts,
    )


def show_dry_run(code: PreparedCode) -> int:
    prepared, conflicts = code.prepared, code.conflicts
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
        notes=merging.dry_run_notes(conflicts, prepared.workflow.label_prefix),
        details=merging.dry_run_details(conflicts),
    )
