"""The `agentos` command: finds the subcommand, runs it, turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from agentos import __version__
from agentos.cli import demo, issue, keys, lint, lld, run, runs
from agentos.errors import AgentosError, ExitCode

_COMMANDS = (demo, lld, issue, run, runs, keys, lint)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentos",
        description="Run agent workflows over many items in parallel: isolated, durable, stoppable.",
        formatter_class=help_formatter(),
        epilog="Exit codes: 0 all done well, 1 some item failed, 2 usage, 3 something needs revision or review, "
        "4 no usable key, 5 budget reached, 75 quota gone, 130 stopped.",
    )
    parser.add_argument("--version", action="version", version=f"agentos {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser


def help_formatter() -> Any:
    """Colour and structure in a terminal; plain text in a pipe."""
    from rich_argparse import RawDescriptionRichHelpFormatter  # noqa: PLC0415  Rich itself loads only for help.

    return RawDescriptionRichHelpFormatter


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    return guarded(lambda: arguments.handler(arguments))


def run_command(name: str, add_options: Callable[[argparse.ArgumentParser], None], argv: Sequence[str] | None) -> int:
    """A subcommand under a name of its own, as a console script."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--version", action="version", version=f"agentos {__version__}")
    add_options(parser)
    arguments = parser.parse_args(argv)
    return guarded(lambda: arguments.handler(arguments))


def guarded(command: Callable[[], int]) -> int:
    """Run a command; expected errors become one line on stderr and their exit code."""
    try:
        return int(command())
    except AgentosError as error:
        sys.stderr.write(f"agentos: error: {error}\n")
        return int(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader is gone; keep the interpreter from failing once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.ITEM_FAILED)


if __name__ == "__main__":
    sys.exit(main())
