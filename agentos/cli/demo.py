"""`agentos demo`: the main job on a sample project, offline, with real processes."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from agentos.cli.texts import say
from agentos.errors import AgentosError, ExitCode, UsageError

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
    environment = os.environ | {"AGENTOS_HOME": str(demo_dir / "home")}
    environment.setdefault("AGENTOS_OFFLINE_LATENCY_SECONDS", "0.3")
    say(f"A sample project with ten issues is in {_shown(project_dir)}. Designing them, three at a time:\n")
    # Eight designs are approved and two need their authors' answers: that is what exit code 3 says.
    status = _show(_DESIGNING, project_dir, environment, expected=ExitCode.NEEDS_ATTENTION)
    if status == ExitCode.INTERRUPTED:
        return int(status)
    say(
        "\nFour of the issues all the way to tested code, from recorded answers; 5 builds on 2, 6 needs two rounds:\n"
    )
    with resources.as_file(resources.files("agentos.demo").joinpath("recorded")) as recorded_dir:
        environment["AGENTOS_RECORDED_DIR"] = str(recorded_dir)
        status = _show(_CODING, project_dir, environment, expected=ExitCode.OK)
    if status == ExitCode.INTERRUPTED:
        return int(status)
    say(_closing_lines(project_dir, demo_dir / "home"))
    return 0


def _show(command: Sequence[str], project_dir: Path, environment: dict[str, str], *, expected: ExitCode) -> ExitCode:
    """Run a command before the user's eyes. Raises AgentosError when it ends otherwise than it should."""
    say(f"$ cd {_shown(project_dir)} && {' '.join(command)}\n")
    executable = Path(sys.executable).with_name(command[0])
    status = subprocess.run([str(executable), *command[1:]], cwd=project_dir, env=environment, check=False).returncode
    if status not in (expected, ExitCode.INTERRUPTED):
        raise AgentosError(f"The demo did not go as it should: {command[0]} exited with {status}, not {expected:d}.")
    return ExitCode(status)


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


def _closing_lines(project_dir: Path, home_dir: Path) -> str:
    """What to look at next: each command on a line of its own that works when pasted."""
    project, agentos = shlex.quote(_shown(project_dir)), _program("agentos")
    at_home = f"AGENTOS_HOME={shlex.quote(_shown(home_dir))} {agentos}"
    steps = {
        "A reviewed design, with its approval and history": f"{at_home} show LLD-1 --project {project}",
        "A branch: code, tests, reports": f"git -C {project} --no-pager show --stat agentos/6",
        "How the run went": f"{at_home} runs show last",
        "The check that every design passed, for people and CI": f"{agentos} lint '{project}/docs/lld/active/*.md'",
        "A key of your own; then run lld-workflow --all --parallel 3 in your repository": (
            f"{agentos} keys add alpha --provider google"
        ),
    }
    told = "".join(f"\n  {what}:\n    {command}\n" for what, command in steps.items())
    return f"{_TWO_NEED_REVISION}\nNext steps:\n{told}"


def _program(name: str) -> str:
    """How a shell in this folder finds one of our commands."""
    path, found = Path(sys.executable).with_name(name), shutil.which(name)
    return name if found and Path(found).samefile(path) else shlex.quote(_shown(path))


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


_TWO_NEED_REVISION = """
Two designs need revision: their issues leave questions open that only their authors can answer (see exit code 3).
"""
