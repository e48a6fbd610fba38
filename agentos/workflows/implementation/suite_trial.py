"""The project's tests before anything is changed, in a copy that is thrown away."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agentos.git.command import Git
from agentos.git.worktrees import Worktree
from agentos.settings import Settings
from agentos.workflows.context import Context
from agentos.workflows.implementation.branch import folder_of, open_repository
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.suite_report import SuiteReport


def try_suite(project_dir: Path, settings: Settings, *, runs: bool = True) -> SuiteReport | None:
    """How the tests of the base go; None when they are not run, or there is no commit to run them on.

    Raises UsageError when what runs the tests is not there. The user's checkout and its repository stay untouched.
    """
    repository = open_repository(project_dir, settings)
    commit = repository.git.resolve(settings.implementation.base)
    if not runs or commit is None:
        return None
    with tempfile.TemporaryDirectory(prefix="agentos-suite-", ignore_cleanup_errors=True) as scratch:
        checkout = Path(scratch).resolve() / "checkout"
        # Shares the objects of the user's repository and writes nothing to it.
        repository.git.run("clone", "--quiet", "--shared", "--no-checkout", ".", str(checkout))
        Git(checkout).run("checkout", "--quiet", "--detach", commit)
        worktree = Worktree(path=checkout, head=commit, branch=None, git_dir=checkout / ".git")
        place = ProjectWorktree(worktree, folder_of(project_dir, repository))
        return ProjectTests(Context(project_dir=project_dir, settings=settings), place).suite()
