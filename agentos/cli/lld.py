"""`agentos lld` and `lld-workflow`: issues become reviewed low-level designs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from agentos.cli.documents import DocumentCommand
from agentos.cli.options import add_standing_options
from agentos.workflows.drafting.pending import find_llds

COMMAND: DocumentCommand = DocumentCommand(
    workflow="lld",
    noun="issue",
    summary="turn issues into reviewed low-level designs",
    description="Write a reviewed low-level design (LLD) for each issue, many at once.",
    prepare=lambda arguments: COMMAND.find(arguments, find_llds),
    add_own_options=add_standing_options,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    COMMAND.add_parser("lld", subparsers)


def main(argv: Sequence[str] | None = None) -> int:
    return COMMAND.main("lld-workflow", argv)
