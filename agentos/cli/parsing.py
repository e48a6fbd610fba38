"""The parser of every command: a mistyped command, verb, option or choice is told with what may have been meant."""

from __future__ import annotations

import argparse
import itertools
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from agentos.distribution import DISTRIBUTION
from agentos.errors import ExitCode
from agentos.text.suggestions import did_you_mean, nearest, suggested

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


_MISSING = "the following arguments are required"
"""How argparse begins what it says of them."""


class CommandParser(argparse.ArgumentParser):
    """Commands below it are parsed by the same class, so a mistake is told with the usage of the command it is in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": _help_formatter, **kwargs})
        self._words: list[str] = []
        self.register("action", "parsers", _Commands)

    def parse_known_args(  # type: ignore[override]  # argparse overloads it by the kind of namespace.
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like argparse's, but what looks like an option and is none is an error here, not at the top."""
        self._words = sys.argv[1:] if args is None else list(args)
        parsed, others = super().parse_known_args(args, namespace)
        unknown = [word for word in others if word.startswith("-") and word != "-"]
        if unknown:
            self.error(self._unrecognized(unknown))
        return parsed, others

    def error(self, message: str) -> NoReturn:
        """As every other error: the program's name first, whichever of its commands it is."""
        if message.startswith(_MISSING) and (unknown := self._mistyped()):
            message = self._unrecognized(unknown)  # It may be what is missing.
        elif message.startswith(_MISSING) and (known := self._commands()):
            message = f"say what to do: {', '.join(known)}"
        self.print_usage(sys.stderr)
        self.exit(int(ExitCode.USAGE), f"{self.prog.split()[0]}: error: {message}\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Unlike argparse's it says when it cannot be written."""
        (file or sys.stdout).write(self.format_help())

    def format_usage(self) -> str:
        return _capitalized(super().format_usage())

    def format_help(self) -> str:
        columns = self._get_formatter()._width
        self.description = _wrapped(_sentence(self.description or ""), columns)
        self.epilog = _wrapped(self.epilog or "", columns)
        return _capitalized(super().format_help())

    def _unrecognized(self, words: Sequence[str]) -> str:
        # Dashes, which all of them have, would make any two alike.
        names = {name.lstrip("-"): name for name in self._names()}
        meant = [names[name] for name in nearest(_name(words[0]).lstrip("-"), names)]
        return f"unrecognized arguments: {' '.join(words)}.{suggested(meant)}"

    def _mistyped(self) -> list[str]:
        """Words that look like options and begin none of them."""
        names = tuple(self._names())
        words = itertools.takewhile(lambda word: word != "--", self._words)
        return [
            word
            for word in words
            if word.startswith("--") and not any(name.startswith(_name(word)) for name in names)
        ]

    def _commands(self) -> list[str]:
        """Those below this one."""
        below = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return [name for action in below for name in action.choices]

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


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # It has none at run time.
    """Commands below one: each says on its own page what it says in the list, unless it has more to say."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser:
        kwargs.setdefault("description", kwargs.get("help"))
        parser: argparse.ArgumentParser = super().add_parser(name, **kwargs)
        return parser


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    """Colour in a terminal; the same text without it in a pipe, where loading Rich would take most of the time."""
    if sys.stdout.isatty():
        from rich_argparse import RawDescriptionRichHelpFormatter  # noqa: PLC0415

        return RawDescriptionRichHelpFormatter(prog)
    return _PlainHelpFormatter(prog)


class _PlainHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The text of the coloured help."""

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading.title() if heading else heading)


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


def _sentence(text: str) -> str:
    """A description that is the one-line help of a command, as the sentence it is on a page of its own."""
    end = "" if not text or "\n" in text or text.endswith(".") else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def _wrapped(text: str, columns: int) -> str:
    """Each paragraph in so many columns; one with indented lines, a list or a table, stands as it is."""
    paragraphs = [
        text if any(line.startswith(" ") for line in text.splitlines()) else textwrap.fill(text, columns)
        for text in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def _name(word: str) -> str:
    return word.partition("=")[0]


def add_project_option(parser: argparse.ArgumentParser, what: str = "the project") -> None:
    parser.add_argument("--project", metavar="DIR", help=f"{what} (default: the one around this folder)")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
