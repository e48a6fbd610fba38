"""`agentos completion`: completion scripts for shells, made from the parsers themselves."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from agentos.cli.known_names import NAMES, kind_of_argument, known_names
from agentos.cli.output import say
from agentos.cli.parsing import CommandParser, command_words
from agentos.errors import UsageError
from agentos.hints import Hint, program

_SCRIPTS = ("agentos", "lld-workflow", "issue-workflow")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a completion script.\n\n"
        f"  bash: {Hint.COMPLETE_BASH.line()}\n"
        f"  zsh:  {Hint.COMPLETE_ZSH.line()}\n"
        f"        and fpath+=(~/.zfunc) before compinit in ~/.zshrc\n"
        f"  fish: {Hint.COMPLETE_FISH.line()}"
    )
    parser.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"))
    parser.add_argument(
        "--command", choices=_SCRIPTS, default="agentos", help="the command to complete (default: agentos)"
    )
    # What the scripts ask when a name is to be completed.
    parser.add_argument("--names", choices=tuple(NAMES), help=argparse.SUPPRESS)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415  Only this command needs it.

    if arguments.names:
        say(*known_names(arguments.names, Path.cwd()))
        return 0
    if arguments.shell is None:
        raise UsageError("Name a shell: bash, zsh or fish.")
    parser = _parser(arguments.command)
    _complete_names(parser)
    sys.stdout.write(shtab.complete(parser, shell=arguments.shell).rstrip() + "\n")
    return 0


def _complete_names(parser: argparse.ArgumentParser) -> None:
    """Have the script ask for names where names are to be typed, in this command and those below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for shown in action._choices_actions:
                # A line in a list of commands, not the text of their help.
                action.choices[shown.dest].description = shown.help
            for command in dict.fromkeys(action.choices.values()):
                _complete_names(command)
        elif not action.option_strings and (kind := kind_of_argument(command_words(parser), action.dest)):
            action.complete = _asking_for(kind)  # type: ignore[attr-defined]


def _asking_for(kind: str) -> dict[str, Any]:
    """What each shell does for names of this kind, at the moment they are to be completed."""
    import shtab  # noqa: PLC0415

    command = f"{program('agentos')} completion --names {kind} 2>/dev/null"
    # Not a plain `$(…)`: zsh would ask for all names of all commands when it loads the script, and never again.
    return {**shtab.cmd(command), "zsh": f"{{compadd -- \\$({command})}}"}


def _parser(name: str) -> CommandParser:
    from agentos.cli import issue, lld, main  # noqa: PLC0415  main finds this module by name.

    if name == "agentos":
        return main.build_parser()
    parser = CommandParser(prog=name)
    (lld if name == "lld-workflow" else issue).command().add_options(parser)
    return parser
