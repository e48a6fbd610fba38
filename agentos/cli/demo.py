"""`agentos demo`: the main job on a sample project, offline, with real processes."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

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
    _say(f"A sample project with ten issues is in {_shown(project_dir)}. Designing them, three at a time:\n")
    # Eight designs are approved and two need their authors' answers: that is what exit code 3 says.
    status = _show(_DESIGNING, project_dir, environment, expected=ExitCode.NEEDS_ATTENTION)
    if status == ExitCode.INTERRUPTED:
        return int(status)
    _say(
        "\nFour of the issues all the way to tested code, from recorded answers; 5 builds on 2, 6 needs two rounds:\n"
    )
    with resources.as_file(resources.files("agentos.demo").joinpath("recorded")) as recorded_dir:
        environment["AGENTOS_RECORDED_DIR"] = str(recorded_dir)
        status = _show(_CODING, project_dir, environment, expected=ExitCode.OK)
    if status == ExitCode.INTERRUPTED:
        return int(status)
    _say(_NEXT_STEPS.format(project=_shown(project_dir), home=_shown(demo_dir / "home")))
    return 0


def _show(command: Sequence[str], project_dir: Path, environment: dict[str, str], *, expected: ExitCode) -> ExitCode:
    """Run a command before the user's eyes. Raises AgentosError when it ends otherwise than it should."""
    _say(f"$ cd {_shown(project_dir)} && {' '.join(command)}\n")
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


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


_NEXT_STEPS = """
Two designs need revision: their issues leave questions open that only their authors can answer (see exit code 3).

Next steps:
  less {project}/docs/lld/active/LLD-1.md            a reviewed design, with its approval
  git -C {project} show agentos/6                   a branch: code, tests, reports
  AGENTOS_HOME={home} agentos runs show last        how the run went
  agentos lint '{project}/docs/lld/active/*.md'      the same check, for people and CI
  agentos keys add NAME --provider google           then: lld-workflow --all --parallel 3 in your own repository
"""
