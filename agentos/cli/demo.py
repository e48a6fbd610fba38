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
from importlib import resources
from pathlib import Path

from agentos.cli.texts import say
from agentos.engine.signals import signals_handled
from agentos.errors import AgentosError, ExitCode, UsageError
from agentos.hints import PREFIX_VARIABLE, Hint, Place, program

_MARK = ".agentos-demo"
_DESIGNING = ("lld-workflow", "--all", "--parallel", "3", "--drafter", "offline", "--reviewer", "offline")
_CODING = (
    *("agentos", "pipeline", "1", "2", "5", "6", "--parallel", "3", "--fresh"),
    *("--drafter", "recorded", "--reviewer", "recorded"),
)
_GIT_IDENTITY = (
    "-c",
    "user.name=AgentOS demo",
    "-c",
    "user.email=demo@agentos.invalid",
    "-c",
    "commit.gpgsign=false",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="see it work: ten issues of a sample project designed, four of them implemented, offline",
        description="Makes a sample project with ten issues, designs them three at a time with the offline model, "
        "and takes four of them to branches with passing tests with recorded answers.",
    )
    parser.add_argument(
        "--dir", default=".demo", metavar="DIR", help="where to make it, anew each time (default: .demo)"
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    demo_dir = Path(arguments.dir).absolute()
    project_dir = _make_project(demo_dir)
    place = Place(project=_shown(project_dir), prefix=f"AGENTOS_HOME={shlex.quote(_shown(demo_dir / 'home'))}")
    environment = os.environ | {"AGENTOS_HOME": str(demo_dir / "home")}
    environment.setdefault("AGENTOS_OFFLINE_LATENCY_SECONDS", "0.3")
    say(f"A sample project with ten issues is in {_shown(project_dir)}. Designing them, three at a time:\n")
    # Eight designs are approved and two need their authors' answers: that is what exit code 3 says.
    status = _show(_DESIGNING, place, environment, expected=ExitCode.NEEDS_ATTENTION)
    if status == ExitCode.INTERRUPTED:
        return _stopped(demo_dir)
    say(
        "\nFour of the issues all the way to tested code, from recorded answers; 5 builds on 2, 6 needs two rounds:\n"
    )
    with resources.as_file(resources.files("agentos.demo").joinpath("recorded")) as recorded_dir:
        recorded = f"AGENTOS_RECORDED_DIR={shlex.quote(_shown(recorded_dir))}"
        environment["AGENTOS_RECORDED_DIR"] = str(recorded_dir)
        coding = replace(place, prefix=f"{place.prefix} {recorded}")
        status = _show(_CODING, coding, environment, expected=ExitCode.OK)
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
        raise AgentosError(f"The demo did not go as it should: {name} exited with {status}, not {expected:d}.")
    return ExitCode(status)


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The command's exit status. It hears every stop once, whether the terminal or another process sent it."""
    # In a group of its own the terminal's Ctrl+C comes only to us, and from here to the command.
    process = subprocess.Popen(command, env=environment, process_group=0)

    def suspend() -> None:
        process.send_signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)

    with signals_handled(process.send_signal, on_suspend=suspend):
        return process.wait()


def _stopped(demo_dir: Path) -> int:
    say(f"\nThe demo was stopped. It starts over with: {Hint.DEMO.line(folder=_shown(demo_dir))}")
    return int(ExitCode.INTERRUPTED)


def _make_project(demo_dir: Path) -> Path:
    if demo_dir.exists():
        if not (demo_dir / _MARK).is_file():
            raise UsageError(f"{demo_dir} exists and is not a demo of ours. Choose another with --dir.")
        shutil.rmtree(demo_dir)
    demo_dir.mkdir(parents=True)
    (demo_dir / _MARK).touch()
    project_dir = demo_dir / "shelf"
    with resources.as_file(resources.files("agentos.demo").joinpath("sample")) as sample:
        shutil.copytree(sample, project_dir, ignore=shutil.ignore_patterns("__pycache__"))
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        [*_GIT_IDENTITY, "commit", "--quiet", "-m", "The sample project"],
    ):
        subprocess.run(["git", *arguments], cwd=project_dir, check=True, stdin=subprocess.DEVNULL)
    return project_dir


def _closing_lines(place: Place) -> str:
    """What to look at next: each command on a line of its own that works when pasted."""
    designs = f"{place.project}/docs/lld/active"
    steps = {
        "A reviewed design, with its approval and history": Hint.SHOW_DOCUMENT.line(label="LLD-1", place=place),
        "A branch: code, tests, reports": Hint.SHOW_BRANCH.line(folder=place.project, branch="agentos/6"),
        "How the run went": Hint.SHOW_LAST_RUN.line(place=place),
        "The check that every design passed, for people and CI": Hint.LINT.line(path=designs),
        "A key of your own; then design your own issues": Hint.ADD_KEY.line(provider="google"),
    }
    told = "".join(f"\n  {what}:\n    {command}\n" for what, command in steps.items())
    return f"{_TWO_NEED_REVISION}\nNext steps:\n{told}"


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


_TWO_NEED_REVISION = """
Two designs need revision: their issues leave questions open that only their authors can answer (see exit code 3).
"""
