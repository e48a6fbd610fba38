"""`agentos repl`: the same commands at a prompt, like `/ws run a b` or `/runs`, with history and completion."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentos.cli.known_names import kind_of_argument, known_names
from agentos.cli.main import COMMANDS, build_parser, guarded, parse
from agentos.cli.parsing import command_words
from agentos.errors import ExitCode

_PROMPT = "agentos> "
_WAYS_OUT = ("quit", "exit")
_OWN = {"help": "this list", "quit": "leave (also Ctrl+D)"}
_KEPT_LINES = 1000

Names = Callable[[str], Sequence[str]]
"""Names of a kind, like `slugs`."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Type commands with a slash: /ws run a b, /ws list, /runs, /help, /quit. Ctrl+C stops what is "
        "running and returns to the prompt. In piped input each line is a command, and the last one's exit code "
        "counts."
    )
    parser.set_defaults(handler=run)


def run(_: argparse.Namespace) -> int:
    """Carry out commands until the end of input or /quit. Errors are told; only then the next command comes."""
    if sys.stdin.isatty():
        with _line_editing():
            _converse()
        return ExitCode.OK
    exit_code: int = ExitCode.OK
    for line in sys.stdin:
        words = _words(line)
        if words and words[0] in _WAYS_OUT:
            break
        exit_code = exit_code if words == [] else _carry_out(words)
    return exit_code


def _converse() -> None:
    """At a terminal. Ctrl+C gives up the line or stops the command, whichever there is, and nothing else."""
    while True:
        try:
            words = _words(input(_PROMPT))
            if words and words[0] in _WAYS_OUT:
                return
            _carry_out(words)
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")


def _words(line: str) -> list[str] | None:
    """The line as a shell would split it, without the slash; None when that cannot be done."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    return [words[0].removeprefix("/"), *words[1:]] if words else []


def _carry_out(words: Sequence[str] | None) -> int:
    """One command, as `_words` gives it. Returns its exit code."""
    if words is None:
        _complain("a quote is left open: check the quotes")
        return ExitCode.USAGE
    if not words:
        return ExitCode.OK
    name = words[0]
    if name == "help" or not name:
        _say_help()
        return ExitCode.OK
    if name == "repl":
        _complain("you are already at the prompt")
        return ExitCode.USAGE
    if name not in COMMANDS:
        _complain(f"no command /{name}: /help lists them")
        return ExitCode.USAGE
    try:
        arguments = parse(build_parser({name}), words)
        return guarded(lambda: arguments.handler(arguments))
    except SystemExit as end:
        # Help, or a usage error: argparse has said what.
        return end.code if isinstance(end.code, int) else ExitCode.USAGE
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _say_help() -> None:
    known = {**{name: text for name, text in COMMANDS.items() if name != "repl"}, **_OWN}
    width = max(map(len, known))
    sys.stdout.write("".join(f"  /{name.ljust(width)}  {text}\n" for name, text in known.items()))
    sys.stdout.write("  /COMMAND --help says what a command takes.\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"agentos: error: {text}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _line_editing() -> Iterator[None]:
    """History over sessions and completion, where Python was built with readline."""
    try:
        import readline  # noqa: PLC0415  Not everywhere, and only for a terminal.
    except ImportError:
        yield
        return
    from agentos.paths import repl_history_path  # noqa: PLC0415

    history_path = repl_history_path()
    with contextlib.suppress(OSError):
        readline.read_history_file(history_path)
    readline.set_history_length(_KEPT_LINES)
    readline.set_completer_delims(" \t\n")
    readline.set_completer(_completer(readline.get_line_buffer))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            history_path.parent.mkdir(parents=True, exist_ok=True)
            # Texts of workstreams are nobody else's business.
            os.close(os.open(history_path, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(history_path)


def _completer(line_so_far: Callable[[], str]) -> Callable[[str, int], str | None]:
    found: list[str] = []

    def complete(text: str, number: int) -> str | None:
        if number == 0:
            words = line_so_far().split()
            before = words[:-1] if text else words
            found[:] = completions(before, text, lambda kind: known_names(kind, Path.cwd()))
        return f"{found[number]} " if number < len(found) else None

    return complete


def completions(before: Sequence[str], text: str, names: Names) -> list[str]:
    """What could stand here: a command, one of its verbs, an option, or the name of something.

    `before` are the whole words in front of it, `text` its beginning.
    """
    if not before:
        commands = [f"/{name}" for name in (*COMMANDS, *_OWN) if name != "repl"]
        return [name for name in commands if name.startswith(text if text.startswith("/") else f"/{text}")]
    name = before[0].removeprefix("/")
    if name not in COMMANDS:
        return []
    parser = _deepest(build_parser({name}), [name, *before[1:]])
    verbs = _choices(parser)
    if text.startswith("-"):
        options = [option for action in parser._actions for option in action.option_strings]
        return sorted(option for option in options if option.startswith(text))
    if verbs:
        return sorted(verb for verb in verbs if verb.startswith(text))
    places = [action.dest for action in parser._actions if not action.option_strings]
    kinds = [kind for place in places if (kind := kind_of_argument(command_words(parser), place))]
    known = [name for kind in kinds for name in names(kind)]
    return sorted(name for name in dict.fromkeys(known) if name.startswith(text) and name not in before)


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def _deepest(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    for word in words:
        parser = _choices(parser).get(word, parser)
    return parser
