"""`agentos demo`: the main job on a sample project, offline, with real processes."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentos.cli.output import say, shown
from agentos.demo import copy_recordings, make_sample_project
from agentos.engine.signals import signals_handled
from agentos.environment import environment
from agentos.errors import AgentosError, ExitCode, UsageError
from agentos.hints import PREFIX_VARIABLE, Hint, Place, program
from agentos.processes import host

_MARK = ".agentos-demo"
_RECORDED = ("--parallel", "3", "--drafter", "recorded", "--reviewer", "recorded")
_DESIGNING = ("lld-workflow", "--all", *_RECORDED)
_CODING = ("agentos", "implement", "2", "5", "6", "7", *_RECORDED)
_OPENING = """\
A sample project with ten issues is in {project}.
Designing them, three at a time. What the models say is recorded;
the processes, checks, tests and branches are real.
"""
_BETWEEN = """
Four of the approved designs become tested code.
5 builds on 2 and gets one more test in review; 6 takes two rounds.
"""
_CLOSING = """
Two designs need a person: that is exit code 3 of the first command.
  4 waits for the answers to its questions in docs/issues/04-fines.md.
  9 answers for the librarians what docs/issues/09-sync-branches.md asks them,
    and its reviewer noticed.
Answering them changes nothing in this demo: recordings do not read. It takes a live model, with a key of your own.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a sample project with ten issues, design them three at a time, and take four of them to "
        "branches with passing tests. The models' answers are recordings, so it needs no key and no network; the "
        "processes, checks, tests and branches are real."
    )
    parser.add_argument(
        "--dir", default=".demo", metavar="DIR", help="where to make the sample; replaced each time (default: .demo)"
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    demo_dir = Path(arguments.dir).absolute()
    try:
        _make(demo_dir)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"cannot make the demo in {demo_dir}: {reason}. Choose another folder with --dir.") from None
    folders = {"AGENTOS_HOME": shown(demo_dir / "home"), "AGENTOS_RECORDED_DIR": shown(demo_dir / "recorded")}
    home, recorded = (f"{name}={shlex.quote(folder)}" for name, folder in folders.items())
    place = Place(project=shown(demo_dir / "shelf"), prefix=home)
    answered = replace(place, prefix=f"{home} {recorded}")
    given = {"AGENTOS_OFFLINE_LATENCY_SECONDS": "0.1", **environment(), **folders}
    say(_OPENING.format(project=place.project))
    # Eight designs are approved and two need a person: that is what exit code 3 says.
    status = _show(_DESIGNING, answered, given, expected=ExitCode.NEEDS_ATTENTION)
    if status == ExitCode.INTERRUPTED:
        return _stopped(demo_dir)
    say(_BETWEEN)
    status = _show(_CODING, answered, given, expected=ExitCode.OK)
    if status == ExitCode.INTERRUPTED:
        return _stopped(demo_dir)
    say(_closing_lines(place))
    return 0


def _show(command: Sequence[str], place: Place, environment: dict[str, str], *, expected: ExitCode) -> ExitCode:
    """Run a command before the user's eyes. Raises AgentosError when it ends otherwise than it should."""
    name, words = command[0], [*command[1:], "--project", place.project]
    say(f"$ {place.prefix} {program(name)} {shlex.join(words)}\n")
    status = _run([str(Path(sys.executable).with_name(name)), *words], environment | {PREFIX_VARIABLE: place.prefix})
    if status not in (expected, ExitCode.INTERRUPTED):
        raise AgentosError(f"The demo went wrong: {name} exited with {status}, not {expected:d}.")
    return ExitCode(status)


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The command's exit status. It hears every stop once, whether the terminal or another process sent it."""
    # In a group of its own the terminal's Ctrl+C comes only to us, and from here to the command.
    group = {host.TERMINAL_GROUP_VARIABLE: str(os.getpgrp())} if hasattr(os, "getpgrp") else {}
    process = subprocess.Popen(command, env=environment | group, process_group=0)

    def suspend() -> None:
        process.send_signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)

    with signals_handled(process.send_signal, on_suspend=suspend):
        return process.wait()


def _stopped(demo_dir: Path) -> int:
    say(f"\nThe demo was stopped. It starts over with: {Hint.DEMO.line(folder=shown(demo_dir))}")
    return int(ExitCode.INTERRUPTED)


def _make(demo_dir: Path) -> None:
    if (demo_dir / _MARK).is_file():
        shutil.rmtree(demo_dir)
    elif demo_dir.exists() and not (demo_dir.is_dir() and not any(demo_dir.iterdir())):
        raise UsageError(f"{demo_dir} is not empty and is not a demo folder. Choose another folder with --dir.")
    demo_dir.mkdir(parents=True, exist_ok=True)
    (demo_dir / _MARK).touch()
    make_sample_project(demo_dir / "shelf")
    copy_recordings(demo_dir / "recorded")


def _closing_lines(place: Place) -> str:
    """What to look at next: each command on a line of its own that works when pasted."""
    design = f"{place.project}/docs/lld/active/LLD-7.md"
    steps = {
        "A design that its reviewer sent back once; the history has both rounds": Hint.SHOW_DOCUMENT.line(
            label="LLD-7", place=place
        ),
        "A branch whose first code failed a test and whose second passed, with reports": Hint.SHOW_BRANCH.line(
            repository=place.project, branch="agentos/6"
        ),
        "How the run went": Hint.SHOW_RUN.line(run="last", place=place),
        "The check that every approved design passed, for people and CI": Hint.LINT.line(path=design),
        "A key of your own; then design your own issues": Hint.ADD_KEY.line(provider="google"),
    }
    told = "".join(f"\n  {what}:\n    {command}\n" for what, command in steps.items())
    return f"{_CLOSING}\nNext steps:\n{told}"
