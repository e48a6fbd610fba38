"""The demo: a sample project with ten issues, and recorded answers of the models that work on them.

The answers were written by hand, as good ones would look. `python -m tools.record_demo` unpacks them for editing and
records them again.
"""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

_GIT_IDENTITY = (
    *("-c", "user.name=AgentOS demo"),
    *("-c", "user.email=demo@agentos.invalid"),
    *("-c", "commit.gpgsign=false"),
)


def make_sample_project(directory: Path) -> None:
    """Copy the sample project to a folder that does not exist yet, as a git repository with one commit."""
    with resources.as_file(resources.files("agentos.demo").joinpath("sample")) as sample:
        shutil.copytree(sample, directory, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for arguments in (
        ("init", "--quiet"),
        ("add", "."),
        (*_GIT_IDENTITY, "commit", "--quiet", "-m", "The sample project"),
    ):
        subprocess.run(["git", *arguments], cwd=directory, check=True, stdin=subprocess.DEVNULL)


def copy_recordings(directory: Path) -> None:
    """Copy the recorded answers to a folder that does not exist yet."""
    with resources.as_file(resources.files("agentos.demo").joinpath("recorded")) as recorded:
        shutil.copytree(recorded, directory)
