"""The `agentos` command: finds the subcommand, runs it, turns errors into one line and an exit code."""

# The program begins here. A stop signal before `main` has taken them shows a traceback: imports come after that.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys

from agentos.processes.stop_signals import as_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Sequence

    from agentos.cli.parsing import CommandParser

COMMANDS = {
    "demo": "see it work offline: design ten issues of a sample project, implement four of them",
    "lld": "turn issues into reviewed low-level designs",
    "issue": "turn briefs into reviewed issues",
    "implement": "turn approved designs into branches with passing tests",
    "pipeline": "take issues all the way: design, tests, code",
    "ws": "manage and run workstreams: each a worktree, a branch and a state",
    "review": "see what waits for a person, and answer it",
    "show": "show an item's document, approval, history and last run",
    "diff": "show what an item changed: code on its branch, or its document",
    "open": "open an item's document in your editor",
    "doctor": "check keys, models, tools and settings before the first run",
    "init": "write a commented agentos.toml and show what was found",
    "config": "show the settings of this project, and where each comes from",
    "run": "run a LangGraph graph over many items",
    "runs": "list, show, follow, report and prune runs",
    "ctl": "pause, resume and steer a run that is under way",
    "dashboard": "serve a page to keep open: all runs live, what needs you, controls",
    "cluster": "check a Ray cluster before a run uses it",
    "gateway": "let any program use your keys through a local address",
    "keys": "list, add, remove, check and reset keys",
    "lint": "check low-level designs and issues",
    "repl": "type the same commands at a prompt, with history and completion",
    "completion": "print a completion script for bash, zsh or fish",
}
"""Every command with its help. The module of the same name has the rest, and loads only when it is used."""


_LONGEST_ERROR = 2_000


def build_parser(wanted: Collection[str] = frozenset(COMMANDS)) -> CommandParser:
    """The parser, complete for the wanted commands; the others are there in name only."""
    import importlib

    from agentos.cli.parsing import CommandParser, add_version

    parser = CommandParser(
        prog="agentos",
        description="Run agent workflows over many items in parallel: isolated from each other, durable, and safe "
        "to stop.",
        epilog="Exit codes: 0 every item succeeded, 1 some item failed, 2 usage, 3 something needs revision or "
        "review, 4 no usable key, 5 budget reached, 75 quota gone, 130 stopped.",
    )
    add_version(parser)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, prog="agentos")
    for name, help_text in COMMANDS.items():
        # Its own file says what it does at length.
        parser_of_command = subparsers.add_parser(name, help=help_text, description=None)
        if name in wanted:
            importlib.import_module(f"agentos.cli.{name}").add_options(parser_of_command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv` this is the program: its signals are taken from here on."""
    if argv is None:
        as_program(lambda: main(sys.argv[1:]))
    open_standard_streams()
    return guarded(lambda: _run(list(argv)))


def _run(words: list[str]) -> int:
    """Guarded from the first import on: a Ctrl+C that comes early is as quiet as one that comes late."""
    from agentos.errors import ExitCode
    from agentos.processes.loading import leave_out_command_lines, uncollected

    leave_out_command_lines()
    with uncollected():
        if not words:
            build_parser(()).print_help()
            return ExitCode.OK
        arguments = parse(build_parser(set(words[:1])), words)
    return int(arguments.handler(arguments))


def parse(parser: CommandParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Like `parse_args`, but ids may stand anywhere among the options, not only in one place."""
    arguments, others = parser.parse_known_args(words)
    if others and not hasattr(arguments, "ids"):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if others:
        arguments.ids = [*arguments.ids, *others]
    return arguments


def run_command(name: str, add_options: Callable[[argparse.ArgumentParser], None], argv: Sequence[str]) -> int:
    """A subcommand under a name of its own, as a console script."""
    from agentos.cli.parsing import CommandParser, add_version

    open_standard_streams()
    parser = CommandParser(prog=name)
    add_version(parser)
    add_options(parser)

    def run() -> int:
        arguments = parse(parser, argv)
        return int(arguments.handler(arguments))

    return guarded(run, name)


def open_standard_streams() -> None:
    """Make the streams usable, whatever the shell gave us: closed ones lead nowhere, and all take any text.

    A stream that came closed (`>&-`, some daemons) would else be the next file that opens.
    """
    from agentos.text.encodings import never_fails

    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null != descriptor:
                os.close(null)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        never_fails(stream)


def guarded(command: Callable[[], int], program: str = "agentos") -> int:
    """Run a command to its last byte; expected errors become one line on stderr and their exit code."""
    from agentos.errors import ExitCode

    try:
        code = _exit_code(command, program)
        sys.stdout.flush()
    except BrokenPipeError:
        code = int(ExitCode.ITEM_FAILED)
    except OSError as error:
        text, code = _about_the_machine(error)
        if not text:
            raise
        _complain(f"{program}: error: {text}\n")
    _drop_unwritten_output()
    return code


def _about_the_machine(error: OSError) -> tuple[str, int]:
    """What is wrong where the command runs, and its exit code; empty when the error may well be a bug."""
    import errno

    from agentos.errors import ExitCode

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" {error.filename}" if error.filename else ""
        return f"cannot write{where}: {error.strerror}", ExitCode.ITEM_FAILED
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too few open files are allowed. Raise the limit (ulimit -n 1024) and try again", ExitCode.USAGE
    if _is_about_home(error):
        fix = "Correct its permissions, or set AGENTOS_HOME to a folder you can write to"
        return f"cannot use {error.filename}: {error.strerror}. {fix}", ExitCode.USAGE
    if error.errno == errno.ENOENT and not _is_somewhere():
        return "the current folder no longer exists. Change to another one and try again", ExitCode.USAGE
    return "", 0


def _is_about_home(error: OSError) -> bool:
    """Whether AGENTOS_HOME may not be written to, or is no folder and cannot become one."""
    import errno
    from pathlib import Path

    from agentos.paths import home_dir

    home, path = home_dir(), error.filename
    if not isinstance(path, str) or not (Path(path).is_relative_to(home) or home.is_relative_to(path)):
        return False
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) or not home.is_dir()


def _is_somewhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  Path.cwd does the same, and says no more.
    except OSError:
        return False
    return True


def _exit_code(command: Callable[[], int], program: str) -> int:
    from agentos.distribution import clash
    from agentos.errors import AgentosError, ExitCode

    try:
        code = int(command())
    except AgentosError as error:
        from agentos.text.words import one_line

        _complain(f"{program}: error: {one_line(str(error), longest=_LONGEST_ERROR)}\n")
        return int(error.exit_code)
    except KeyboardInterrupt:
        _complain("\n")
        return int(ExitCode.INTERRUPTED)
    except ImportError as error:
        if not (text := clash()):
            raise
        _complain(f"{program}: error: {error}. {text}\n")
        return int(ExitCode.USAGE)
    except SystemExit as end:
        # Help, the version or a usage error: argparse has said what, but perhaps not written it yet.
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    if text := clash():
        _complain(f"Warning: {text}\n")
    return code


def _complain(text: str) -> None:
    """Where stderr cannot be written either, the exit code alone tells."""
    import contextlib

    with contextlib.suppress(OSError):
        sys.stderr.write(text)


def _drop_unwritten_output() -> None:
    """What could not be written stays in its buffer, and the interpreter would fail over it once more at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


if __name__ == "__main__":
    sys.exit(main())
