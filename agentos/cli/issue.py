"""`agentos issue` and `issue-workflow`: briefs become reviewed issues."""

# `issue-workflow` begins here: it takes its stop signals first, and loads the rest afterwards.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys

from agentos.processes.stop_signals import as_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from agentos.cli.documents import DocumentCommand
    from agentos.cli.run_command import Work
    from agentos.events import Listener
    from agentos.launch.request import RunRequest


def command() -> DocumentCommand:
    from agentos.cli.documents import DocumentCommand

    return DocumentCommand(
        workflow="issue",
        noun="brief",
        description="Write a reviewed issue from each brief, many at once.",
        prepare=_prepare,
        add_own_options=_add_own_options,
    )


def _add_own_options(parser: argparse.ArgumentParser) -> None:
    from agentos.cli.options import add_standing_options

    add_standing_options(parser)
    parser.add_argument(
        "--file",
        action="store_true",
        help="file approved issues on GitHub, once each, and move their briefs to the done folder",
    )


def _prepare(arguments: argparse.Namespace) -> Work:
    from dataclasses import replace

    from agentos.workflows.drafting.pending import find_briefs

    work = command().find(arguments, find_briefs)
    return replace(work, start=_start_filing) if arguments.file else work


def _start_filing(request: RunRequest, listener: Listener | None) -> int:
    """Workers get a GitHub token: they file what they have written."""
    from dataclasses import replace

    from agentos.cli.run_command import start_run
    from agentos.environment import environment
    from agentos.workflows.issue.filing import TOKEN_VARIABLES, filing_environment

    filing = filing_environment(request.project_dir, request.settings.sources.issues, environment())
    secrets = [filing[name] for name in TOKEN_VARIABLES if name in filing]
    return start_run(replace(request, environment={**request.environment, **filing}, secrets=secrets), listener)


def add_options(parser: argparse.ArgumentParser) -> None:
    command().add_options(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv` this is the program: its signals are taken from here on."""
    if argv is None:
        as_program(lambda: main(sys.argv[1:]))
    return command().main("issue-workflow", argv)
