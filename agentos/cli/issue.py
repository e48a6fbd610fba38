"""`agentos issue` and `issue-workflow`: briefs become reviewed issues."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.cli.documents import DocumentCommand
from agentos.cli.options import add_standing_options
from agentos.cli.run_command import Work, start_run
from agentos.events import Listener
from agentos.settings import environment
from agentos.workflows.drafting.pending import find_briefs
from agentos.workflows.issue.filing import TOKEN_VARIABLES, filing_environment

if TYPE_CHECKING:
    from agentos.launch import RunRequest


def _add_own_options(parser: argparse.ArgumentParser) -> None:
    add_standing_options(parser)
    parser.add_argument(
        "--file",
        action="store_true",
        help="file approved issues on GitHub, once each, and move their briefs to the done folder",
    )


def _prepare(arguments: argparse.Namespace) -> Work:
    work = COMMAND.find(arguments, find_briefs)
    return replace(work, start=_start_filing) if arguments.file else work


def _start_filing(request: RunRequest, listener: Listener | None) -> int:
    """Workers get a GitHub token: they file what they have written."""
    filing = filing_environment(request.project_dir, request.settings.sources.issues, environment())
    secrets = [filing[name] for name in TOKEN_VARIABLES if name in filing]
    return start_run(replace(request, environment={**request.environment, **filing}, secrets=secrets), listener)


COMMAND = DocumentCommand(
    workflow="issue",
    noun="brief",
    summary="turn briefs into reviewed issues",
    description="Write a reviewed issue from each brief, many at once.",
    prepare=_prepare,
    add_own_options=_add_own_options,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    COMMAND.add_parser("issue", subparsers)


def main(argv: Sequence[str] | None = None) -> int:
    return COMMAND.main("issue-workflow", argv)
