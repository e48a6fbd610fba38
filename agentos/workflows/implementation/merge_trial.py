"""Whether branches work together: merged in order on a clean checkout, with the project's tests after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentos.git.command import Git, GitError
from agentos.workflows.context import Context
from agentos.workflows.implementation.branch import AUTHOR
from agentos.workflows.implementation.clean_checkout import CleanCheckout, clean_checkout
from agentos.workflows.implementation.project_tests import ProjectTests


@dataclass(frozen=True, slots=True)
class Together:
    """How the tests do once a branch is merged after those before it."""

    branch: str
    broken: tuple[str, ...] = ()
    """Tests that fail now and did not before it was merged."""
    partner: str = ""
    """The first of the branches before it that breaks them with it alone."""
    failed_before: bool = False
    """Some test fails, and did so before any of the branches."""
    problem: str = ""
    """Why it was not tried."""

    def words(self) -> str:
        if self.problem:
            return f"tests not run: {self.problem}"
        if not self.broken:
            return "no further test fails" if self.failed_before else "tests pass"
        more = f" and {len(self.broken) - 1} more" if len(self.broken) > 1 else ""
        return f"BREAKS {self.broken[0]}{more}" + (f" together with {self.partner}" if self.partner else "")


def try_together(
    context: Context,
    base: str,
    branches: Sequence[str],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Together]:
    """Merge `branches`, which are known to merge, into `base` one by one, and run the tests after each.

    What fails without any of them is nobody's fault. Stops at the first branch that makes a test fail, and when the
    time for one suite is over.
    """
    deadline = clock() + context.settings.implementation.test_timeout_seconds
    found: dict[str, Together] = {}
    with clean_checkout(context, base) as checkout:
        trial = _Merging(context, checkout)
        failing: frozenset[str] = frozenset()
        for place, branch in enumerate(branches):
            if problem := trial.merge(branch):
                found[branch] = Together(branch, problem=problem)
                continue
            if clock() > deadline:
                found[branch] = Together(branch, problem="it would take longer than test_timeout_seconds")
                continue
            now = trial.failing()
            if now - failing and not found:
                failing = _failing_at(context, base)
            if broken := tuple(sorted(now - failing)):
                partner = _partner(context, base, branches[:place], branch, broken)
                return {**found, branch: Together(branch, broken, partner)}
            found[branch] = Together(branch, failed_before=bool(now))
    return found


def _failing_at(context: Context, base: str) -> frozenset[str]:
    """Tests that fail without any of the branches."""
    with clean_checkout(context, base) as checkout:
        return _Merging(context, checkout).failing()


def _partner(context: Context, base: str, earlier: Sequence[str], branch: str, broken: Sequence[str]) -> str:
    for other in earlier if len(earlier) > 1 else ():
        with clean_checkout(context, base) as checkout:
            trial = _Merging(context, checkout)
            if not trial.merge(other) and not trial.merge(branch) and set(broken) & trial.failing():
                return other
    return earlier[-1] if earlier else ""


@dataclass(frozen=True, slots=True)
class _Merging:
    context: Context
    checkout: CleanCheckout

    def merge(self, branch: str) -> str:
        """Why it does not merge; empty when it does."""
        git: Git = self.checkout.worktree.worktree.git()
        tip = git.resolve(f"refs/remotes/origin/{branch}")
        if tip is None:
            return "there is no such branch"
        try:
            git.run(
                "merge", "--no-edit", "--no-verify", "--quiet", "-m", f"Try {branch}", tip, env=AUTHOR.environment()
            )
        except GitError as error:
            git.run("merge", "--abort", ok=(0, 128))
            return f"it does not merge ({error.stderr_tail[:100]})"
        return ""

    def failing(self) -> frozenset[str]:
        """Tests that fail as things are merged now; the run itself when it says nothing about tests."""
        with self.checkout.fresh() as place:
            report = ProjectTests(self.context, place).suite()
        is_broken = report.timed_out or report.problem or report.exit_code is None
        return frozenset({"the test run itself"}) if is_broken else report.failing
