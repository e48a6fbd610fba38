"""`agentos completion`: completion scripts for shells, made from the parsers themselves."""

from __future__ import annotations

import argparse
import sys

from agentos.cli.parsing import CommandParser
from agentos.hints import Hint

_SCRIPTS = ("agentos", "lld-workflow", "issue-workflow")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="Print a completion script.\n\n"
        f"  bash: {Hint.COMPLETE_BASH.line()}\n"
        f"  zsh:  {Hint.COMPLETE_ZSH.line()}\n"
        f"        and fpath+=(~/.zfunc) before compinit in ~/.zshrc\n"
        f"  fish: {Hint.COMPLETE_FISH.line()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--command", choices=_SCRIPTS, default="agentos", help="for which command (default: agentos)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415  Only this command needs it.

    sys.stdout.write(shtab.complete(_parser(arguments.command), shell=arguments.shell).rstrip() + "\n")
    return 0


def _parser(name: str) -> CommandParser:
    from agentos.cli import issue, lld, main  # noqa: PLC0415  main finds this module by name.

    if name == "agentos":
        return main.build_parser()
    parser = CommandParser(prog=name)
    (lld if name == "lld-workflow" else issue).COMMAND.add_options(parser)
    return parser
