"""The project's tests before anything is changed, in a copy that is thrown away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentos.settings import Settings
from agentos.workflows.context import Context
from agentos.workflows.implementation.branch import open_repository
from agentos.workflows.implementation.clean_checkout import clean_checkout
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.suite_report import SuiteReport


def try_suite(
    project_dir: Path,
    settings: Settings,
    *,
    runs: bool = True,
    on_start: Callable[[float], None] = lambda _most: None,
) -> SuiteReport | None:
    """How the tests of the base go; None when they are not run, or there is no commit to run them on.

    `on_start` is told how many seconds they may take.

    Raises UsageError when what runs the tests is not there. The user's checkout and its repository stay untouched.
    """
    commit = open_repository(project_dir, settings).git.resolve(settings.implementation.base)
    if not runs or commit is None:
        return None
    context = Context(project_dir=project_dir, settings=settings)
    with clean_checkout(context, commit) as checkout, checkout.fresh() as place:
        on_start(settings.implementation.test_timeout_seconds)
        return ProjectTests(context, place).suite()
