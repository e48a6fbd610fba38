"""The reference of all commands, from their parsers: `python -m agentos.cli.reference` writes it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from agentos.cli.main import build_parser
from agentos.hints import program

_WIDTH = 100
_HEAD = """# Commands

Generated from the parsers by `python -m agentos.cli.reference`; do not edit. `lld-workflow` is `agentos lld` and
`issue-workflow` is `agentos issue`.
"""


def reference() -> str:
    """One section a command, in the order of `agentos --help`. The same on every terminal."""
    parts = [_HEAD]
    for name, parser in _commands(build_parser(), ()):
        parser.formatter_class = _formatter
        help_text = parser.format_help().replace(f" {program('agentos')} ", " agentos ")
        text = "\n".join(line.rstrip() for line in help_text.rstrip().splitlines())
        parts.append(f"\n## agentos {name}\n\n```\n{text}\n```\n")
    return "".join(parts)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=_WIDTH)


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            seen: set[int] = set()
            for name, command in action.choices.items():
                if id(command) not in seen:  # An alias is the same parser again.
                    seen.add(id(command))
                    yield " ".join((*path, name)), command
                    yield from _commands(command, (*path, name))


if __name__ == "__main__":
    sys.stdout.write(reference())
