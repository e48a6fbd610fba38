"""A real repository in a home of its own, for the tests that ask for one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.git.worktrees import Repository
from agentos.hints import remember_project

GitCommand = Callable[..., str]
# The command is installed, and a user's shell finds it by its name.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


@pytest.fixture(autouse=True)
def _no_project_of_an_earlier_command() -> Iterator[None]:
    """A process runs one command, this one many."""
    yield
    remember_project(None)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home_path = tmp_path / "home"
    home_path.mkdir()
    monkeypatch.setenv("HOME", str(home_path))
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "agentos-home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home_path


@pytest.fixture
def project(tmp_path: Path, own_home: Path) -> Path:
    """The user's checkout: one commit on `main`, an ignored `.env`, and a hook that must never run."""
    path = tmp_path / "project"
    path.mkdir()
    git_in(path, "init", "--quiet", "--initial-branch=main")
    git_in(path, "config", "user.name", "A User")
    git_in(path, "config", "user.email", "user@example.com")
    (path / "README.md").write_text("hello\n")
    (path / "app.py").write_text("def answer():\n    return 41\n")
    (path / ".gitignore").write_text(".env\n*.local\n")
    git_in(path, "add", "--all")
    git_in(path, "commit", "--quiet", "--message", "Start")
    (path / ".env").write_text("COLOUR=blue\n")
    return path


@pytest.fixture
def repository(project: Path, tmp_path: Path) -> Repository:
    return Repository.open(project, tmp_path / "worktrees")


@pytest.fixture
def git() -> GitCommand:
    return git_in


def git_in(cwd: Path, *arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True, timeout=60)
    return result.stdout.strip()
