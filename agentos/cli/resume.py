"""The command that resumes a run, from what was parsed: pasted where the run was started, it continues it."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from agentos.cli.options import TimeSpan
from agentos.hints import Place
from agentos.reporters.resume_line import (
    BUDGET,
    IDS,
    KEPT_INPUT,
    RUN_DIR,
    all_place,
    plain_number,
    resume_line,
    timeout_place,
    without_places,
)

_NEVER_AGAIN = ("fresh", "dry_run")
"""What would start over, or start nothing."""
_NAMES = ("ids", "slugs")


def resume_template(
    arguments: argparse.Namespace, *, verb: str | None = None, kept: Collection[str] | None = None
) -> str:
    """What resumes a run, with places that `resume_line` fills at its end.

    Ids are named where they were named. With a `verb`, that one takes the place of a command for all items, and ids
    are always named. With `kept`, no other option goes along.
    """
    parser: argparse.ArgumentParser = arguments.parser
    program, *subcommands = parser.prog.split()
    if verb:
        subcommands[-1] = verb
    names_items = verb is not None or any(getattr(arguments, name, None) for name in _NAMES)
    program_words = _program_words(program, getattr(arguments, "script", None))
    typed = " ".join(filter(None, [Place.of_user().prefix, shlex.join([*program_words, *subcommands])]))
    start = without_places(typed)
    # What is chosen stands first, as people type it.
    chosen = IDS if names_items else all_place("--all" if getattr(arguments, "all", False) else "")
    options = [
        _option_text(action, arguments)
        for action in parser._actions
        if (names_items or action.dest != "all") and (kept is None or action.dest in kept)
    ]
    return " ".join(filter(None, [start, chosen, *options]))


def command_line(
    arguments: argparse.Namespace, ids: Sequence[str] = (), *, verb: str | None = None, **changes: Any
) -> str:
    """The command as it was typed, for other items and with other options."""
    changed = argparse.Namespace(**{**vars(arguments), "ids": list(ids), **changes})
    return resume_line(resume_template(changed, verb=verb), ids, getattr(changed, "budget", None))


def options_text(arguments: argparse.Namespace, kept: Collection[str]) -> str:
    """The options of these names as they were typed, each after a space: for a command that takes them too."""
    actions = [action for action in arguments.parser._actions if action.dest in kept]
    return "".join(f" {text}" for text in (_option_text(action, arguments) for action in actions) if text)


def _option_text(action: argparse.Action, arguments: argparse.Namespace) -> str:
    value = getattr(arguments, action.dest, action.default)
    if action.dest == "timeout_seconds":
        return timeout_place(value, is_default=value == action.default)
    if not action.option_strings or action.dest in _NEVER_AGAIN or value == action.default:
        return ""
    name = action.option_strings[0]
    if action.nargs == 0:
        return name
    if action.dest == "items" and value == "-":
        return f"{name} {RUN_DIR}/{KEPT_INPUT}"  # What came through standard input comes once.
    if action.dest == "budget":
        return f"{name} {BUDGET}"
    values = value if isinstance(value, list) else [value]
    return without_places(shlex.join(word for each in values for word in _words(name, each)))


def _words(name: str, value: Any) -> list[str]:
    is_number = isinstance(value, float) and not isinstance(value, TimeSpan)
    text = plain_number(value) if is_number else str(value)
    return [f"{name}={text}"] if text.startswith("-") and text != "-" else [name, text]


def _program_words(program: str, file: str | None) -> Sequence[str]:
    """How a shell finds the program: by its name, by the path it was started by, or through an interpreter.

    `file` is the script of a program that is not installed.
    """
    script = Path(sys.argv[0])
    if file and not (script.exists() and script.samefile(file)):
        return [sys.executable, str(Path(file).absolute())]  # Called from another program.
    if script.name != program and script.name != "main.py":
        return [program]
    if script.suffix == ".py":
        return sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
    found = shutil.which(program)
    is_found = found is not None and script.exists() and script.samefile(found)
    return [program] if is_found else [sys.argv[0]]
