"""`agentos implement`: approved designs become branches with passing tests."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

from agentos.cli.branches import with_branches
from agentos.cli.documents import DocumentCommand
from agentos.cli.options import add_branch_options, add_setting_option
from agentos.cli.output import say
from agentos.cli.run_command import Work
from agentos.hints import Hint
from agentos.workflows.context import ALLOW_UNAPPROVED_VARIABLE
from agentos.workflows.implementation.finished_designs import retire_merged
from agentos.workflows.implementation.pending import Choices, find_designs
from agentos.workflows.implementation.records import check_start


def add_code_options(parser: argparse.ArgumentParser) -> None:
    """How code is written and what becomes of it."""
    add_setting_option(
        parser,
        "--base",
        "implementation.base",
        metavar="REV",
        help="where branches start (default: HEAD, or a dependency's branch)",
    )
    parser.add_argument(
        "--allow-unapproved",
        action="store_true",
        help="also implement designs that are not approved, or have changed since; the report says so",
    )
    parser.add_argument(
        "--wait-for-merge",
        action="store_true",
        help="skip a design until what it depends on is merged (default: build on its branch)",
    )
    add_branch_options(parser)


def as_code(work: Work) -> Work:
    """The work with what the options of `add_code_options` ask for.

    Raises UsageError where no branch could start, and so before a design is paid for.
    """
    if work.plan.items:
        check_start(work.project_dir, work.settings.implementation.base)
    allowed = {ALLOW_UNAPPROVED_VARIABLE: "1"} if work.arguments.allow_unapproved else {}
    code = with_branches(replace(work, environment={**work.environment, **allowed}))
    return replace(code, check=lambda: _check(code))


def _check(code: Work) -> None:
    """Before a run. Git itself knows more than its files: bases of any kind, and checkouts it does not trust."""
    if code.plan.items:
        from agentos.workflows.implementation.branch import base_commit, open_repository  # noqa: PLC0415

        base_commit(open_repository(code.project_dir, code.settings), code.settings)
    code.check()
    retired = retire_merged(code.project_dir, code.settings)
    say(*(f"Done and merged, no longer active: {place}" for place in retired), to_stderr=code.arguments.json)


def _prepare(arguments: argparse.Namespace) -> Work:
    choices = Choices(allows_unapproved=arguments.allow_unapproved, waits_for_merge=arguments.wait_for_merge)
    work = COMMAND.find(arguments, partial(find_designs, choices=choices))
    folder, design = work.settings.documents.lld_dir, Hint.DESIGN_ALL.line()
    return as_code(replace(work, missing=f"No designs in {folder}. Start with: {design}"))


COMMAND = DocumentCommand(
    workflow="implementation",
    noun="design",
    description="Implement each approved low-level design on a branch of its own: write tests first, see them fail, "
    "then write code until they pass.",
    prepare=_prepare,
    add_own_options=add_code_options,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    COMMAND.add_options(parser)
