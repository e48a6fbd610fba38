"""`agentos issue` and `issue-workflow`: briefs become reviewed issues."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from agentos.cli.run_command import DraftingCommand, add_options
from agentos.workflows.drafting.pending import find_briefs

COMMAND = DraftingCommand(
    workflow="issue",
    noun="brief",
    description="Write a reviewed issue from each brief, many at once.",
    find=find_briefs,
    can_file=True,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_options(subparsers.add_parser("issue", help="turn briefs into reviewed issues"), COMMAND)


def main(argv: Sequence[str] | None = None) -> int:
    from agentos.cli.main import run_command  # noqa: PLC0415  main imports this module.

    return run_command("issue-workflow", lambda parser: add_options(parser, COMMAND), argv)
