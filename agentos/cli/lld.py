"""`agentos lld` and `lld-workflow`: issues become reviewed low-level designs."""

# `lld-workflow` begins here: it takes its stop signals first, and loads the rest afterwards.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys

from agentos.processes.stop_signals import as_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from agentos.cli.documents import DocumentCommand


def command() -> DocumentCommand:
    from agentos.cli.documents import DocumentCommand
    from agentos.cli.options import add_standing_options
    from agentos.workflows.drafting.pending import find_llds

    return DocumentCommand(
        workflow="lld",
        noun="issue",
        summary="turn issues into reviewed low-level designs",
        description="Write a reviewed low-level design (LLD) for each issue, many at once.",
        prepare=lambda arguments: command().find(arguments, find_llds),
        add_own_options=add_standing_options,
    )


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command().add_parser("lld", subparsers)


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv` this is the program: its signals are taken from here on."""
    if argv is None:
        return as_program(lambda: main(sys.argv[1:]))
    return command().main("lld-workflow", argv)
