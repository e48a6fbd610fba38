"""The parser of every command: a mistyped command, verb, option or choice is told with what may have been meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from agentos.distribution import DISTRIBUTION
from agentos.errors import ExitCode
from agentos.text.suggestions import did_you_mean


class CommandParser(argparse.ArgumentParser):
    """Commands below it are parsed by the same class, so a mistake is told with the usage of the command it is in."""

    def parse_known_args(  # type: ignore[override]  # argparse overloads it by the kind of namespace.
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like argparse's, but what looks like an option and is none is an error here, not at the top."""
        parsed, others = super().parse_known_args(args, namespace)
        unknown = [word for word in others if word.startswith("-") and word != "-"]
        if unknown:
            self.error(
                f"unrecognized arguments: {' '.join(unknown)}.{did_you_mean(_name(unknown[0]), self._names())}"
            )
        return parsed, others

    def error(self, message: str) -> NoReturn:
        """As every other error: the program's name first, whichever of its commands it is."""
        self.print_usage(sys.stderr)
        self.exit(int(ExitCode.USAGE), f"{self.prog.split()[0]}: error: {message}\n")

    def format_usage(self) -> str:
        return _capitalized(super().format_usage())

    def format_help(self) -> str:
        return _capitalized(super().format_help())

    def _names(self) -> Iterable[str]:
        return [name for action in self._actions for name in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), known, f"Known: {', '.join(known)}.")
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"no command {self.prog} {value}.{hint}")
        raise argparse.ArgumentError(action, f"invalid choice {value!r}.{hint}")


def add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from agentos import __version__  # noqa: PLC0415  another product may have replaced that file

        sys.stdout.write(f"agentos {__version__} ({DISTRIBUTION})\n")
        parser.exit()


def command_words(parser: argparse.ArgumentParser) -> list[str]:
    """What leads to a command: `agentos`, `keys`, `rm`."""
    return parser.prog.split()


def _capitalized(text: str) -> str:
    """`Usage:` as the coloured help has it."""
    return f"U{text[1:]}" if text.startswith("usage:") else text


def _name(word: str) -> str:
    return word.partition("=")[0]
