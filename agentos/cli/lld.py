"""`agentos lld` and `lld-workflow`: issues become reviewed low-level designs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from agentos.cli.run_command import DraftingCommand, add_options
from agentos.workflows.drafting.pending import find_llds

COMMAND = DraftingCommand(
    workflow="lld",
    noun="issue",
    description="Write a reviewed low-level design (LLD) for each issue, many at once.",
    find=find_llds,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_options(subparsers.add_parser("lld", help="turn issues into reviewed low-level designs"), COMMAND)


def main(argv: Sequence[str] | None = None) -> int:
    from agentos.cli.main import run_command  # noqa: PLC0415  main imports this module.

    return run_command("lld-workflow", lambda parser: add_options(parser, COMMAND), argv)
