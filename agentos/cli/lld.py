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
    from agentos.cli.named_workstreams import find_designs
    from agentos.cli.options import add_standing_options

    return DocumentCommand(
        workflow="lld",
        noun="issue",
        description="Write a reviewed low-level design (LLD) for each issue, many at once.",
        prepare=lambda arguments: command().find(arguments, find_designs),
        add_own_options=add_standing_options,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    command().add_options(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv` this is the program: its signals are taken from here on."""
    if argv is None:
        as_program(lambda: main(sys.argv[1:]))
    return command().main("lld-workflow", argv)
