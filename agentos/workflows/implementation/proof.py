"""Green is proven here: on a clean checkout of the branch's commit, with the configuration and tests of before.

What the branch says about how tests are run does not count unless the design lists it, and a test that existed is
run in its former version too.
"""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

from agentos.workflows.context import Context
from agentos.workflows.implementation.assertions import function_names
from agentos.workflows.implementation.clean_checkout import (
    CleanCheckout,
    changed_configuration,
    clean_checkout,
    put_back,
)
from agentos.workflows.implementation.control import NotChangeable, control_problem, made_to_fail
from agentos.workflows.implementation.file_operations import Policy
from agentos.workflows.implementation.judging import defined_tests, is_test_file
from agentos.workflows.implementation.mutation import Mutant, may_read_source, mutants, rewritten
from agentos.workflows.implementation.project_tests import ProjectTests, is_test_path
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.state import Baseline
from agentos.workflows.implementation.suite_report import SuiteKilled, SuiteReport, without_parameters

_QUICK_SECONDS: Final = 20.0
"""A suite that takes longer is not run a third time as a whole."""
_SAMPLED_FILES: Final = 10
_MOST_MUTANTS: Final = 4
_LEAST_MUTANT_SECONDS: Final = 20.0
_RUN_OF_A_MACHINE: Final = "runTest"
"""The name of tests that libraries make of a class, such as Hypothesis of a state machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a branch is said to be."""

    baseline: Baseline
    commit: str
    listed: Collection[str]
    """The files of the design's table."""
    tests: Sequence[str]
    """Test files that the branch adds or changes."""
    code: Sequence[str]
    """Other files that it adds or changes."""
    changed_lines: Mapping[str, frozenset[int]]
    """Where it changes them."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """Whether the new tests notice mistakes in the changed lines."""

    tried: tuple[str, ...] = ()
    """Each mistake in words."""
    noticed: int = 0
    goes_by_text: bool = False
    """Whether tests fail on the same code in other words: then they notice every mistake, and say nothing."""

    @property
    def weakness(self) -> str:
        if self.goes_by_text:
            return "the new tests fail when comments and spaces of the code are others: they go by its text"
        if not self.tried or self.noticed:
            return ""
        return f"no new test notices that the code is broken ({len(self.tried)} mistakes tried: {self.tried[0]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The runs that speak for a branch, or against it."""

    new_tests: SuiteReport
    suite: SuiteReport | None = None
    """None when the new tests do not pass: then there is nothing to prove yet."""
    former: SuiteReport | None = None
    """Tests that existed and were changed, as they were; None when there are none."""
    owed: frozenset[str] = frozenset()
    """Ids that `former` has to pass."""
    excused: frozenset[str] = frozenset()
    """Ids of tests that the design says are changed: whether they pass as they were is told and no more."""
    forgery: str | None = None
    """What shows that the results are not pytest's own, in words."""
    mutation: Mutation | None = None
    """What the new tests said of code broken on purpose; None when it was not asked."""
    unread: str = ""
    """A new test that no file of the project defines: nobody can read what it asserts."""
    unverified: tuple[str, ...] = ()
    """What could not be asked, in words."""

    @property
    def weakness(self) -> str:
        """Why the new tests prove nothing although they pass."""
        if self.unread:
            return f"{self.unread} is made while its file is loaded: write it down, so that it can be read"
        return self.mutation.weakness if self.mutation else ""


def prove(context: Context, claim: Claim, is_worth_it: Callable[[Proof], bool]) -> Proof:
    """Run what the claim stands on. What costs more is asked of a branch that `is_worth_it` so far."""
    with clean_checkout(context, claim.commit) as checkout:
        base, clean = claim.baseline.commit, checkout.worktree
        changed = clean.changed_files(base)
        put_back(clean, base, changed_configuration(clean, base, changed, claim.listed))
        trial = _Trial(context, claim, checkout)
        report = trial.run(lambda tests: tests.new_tests(claim.tests, claim.baseline.suite))
        if not report.is_success:
            return Proof(new_tests=report)
        former = _former_tests(clean, base, changed)
        suite = trial.run(lambda tests: tests.suite(measure=claim.code))
        owed, excused = _owed(claim, former)
        proof = Proof(new_tests=report, suite=suite, owed=owed, excused=excused)
        if not is_worth_it(proof):
            return proof
        if former:
            run = trial.run(
                lambda tests: tests.files_as_they_are(former), lambda place: put_back(place, base, former)
            )
            proof = replace(proof, former=run)
        # Only pytest's own reports can be asked more than that.
        return replace(proof, **trial.doubts(proof)) if not context.settings.implementation.test else proof


@dataclass(frozen=True, slots=True)
class _Trial:
    """Runs in copies of one clean checkout."""

    context: Context
    claim: Claim
    checkout: CleanCheckout

    def run(
        self,
        command: Callable[[ProjectTests], SuiteReport],
        prepare: Callable[[ProjectWorktree], None] = lambda place: None,
    ) -> SuiteReport:
        with self.checkout.fresh() as place:
            prepare(place)
            return command(ProjectTests(self.context, place))

    def doubts(self, proof: Proof) -> dict[str, Any]:
        """What tests made to fail, and code broken on purpose, say about the results."""
        reports = [report for report in (proof.new_tests, proof.suite) if report is not None]
        forgery, unchangeable = self._forgery(reports)
        mutation = self._mutation(proof.new_tests)
        unverified = [f"whether the results of {path} are pytest's own: {why}" for path, why in unchangeable.items()]
        if self._python_code and not mutation.tried:
            unverified.append("whether the new tests notice mistakes, since none could be made in the changed lines")
        unread = self._unread(proof.new_tests)
        return {"forgery": forgery, "mutation": mutation, "unread": unread, "unverified": tuple(unverified)}

    def _forgery(self, reports: Sequence[SuiteReport]) -> tuple[str | None, dict[str, str]]:
        """What shows that results are not pytest's own, and files of which that cannot be told, with the reason."""
        mark = f"control{secrets.token_hex(8)}"
        sources = {path: self.checkout.worktree.text(path) for path in self._control_files(reports[-1].seconds)}
        failing, unchangeable = {}, {}
        for path, source in sources.items():
            try:
                if text := made_to_fail(source, mark):
                    failing[path] = text
            except NotChangeable as error:
                unchangeable[path] = str(error)
        if not failing:
            return None, unchangeable
        control = self.run(lambda tests: tests.some(list(failing)), lambda place: _put(place, failing))
        changed = {test_id for path in failing for test_id in defined_tests(path, sources[path])}
        return control_problem(reports, control, changed, mark), unchangeable

    def _unread(self, report: SuiteReport) -> str:
        """The first new test whose name no test file of the project defines; one may inherit from another file."""
        place = self.checkout.worktree
        known = {_RUN_OF_A_MACHINE}
        for path in place.python_files():
            if is_test_path(path):
                known |= function_names(place.text(path))
        before = {case.id for case in self.claim.baseline.suite.cases or ()}
        new = sorted(report.passed - before)
        return next((test for test in new if without_parameters(test).rpartition("::")[2] not in known), "")

    def _control_files(self, suite_seconds: float) -> list[str]:
        """Every test file if the suite is quick, else the new ones and some that code cannot guess."""
        files = [path for path in self.checkout.worktree.python_files() if is_test_file(path)]
        if suite_seconds > _QUICK_SECONDS:
            sampled = random.SystemRandom().sample(files, min(len(files), _SAMPLED_FILES))
            files = list(dict.fromkeys((*self.claim.tests, *sampled)))
        return [path for path in files if PurePosixPath(path).name != "conftest.py"]

    def _mutation(self, report: SuiteReport) -> Mutation:
        """Break changed lines one after the other until every new test has been seen failing."""
        unmoved, tried, noticed = set(report.passed), [], 0
        limit = max(_LEAST_MUTANT_SECONDS, 4 * report.seconds)
        for mutant in self._mutants():
            if not unmoved:
                break
            passed = self._passed_with({mutant.path: mutant.source}, limit)
            tried.append(f"{mutant.path} line {mutant.line} {mutant.what}")
            noticed += passed != report.passed
            unmoved &= passed
        return Mutation(tuple(tried), noticed, noticed > 0 and self._goes_by_text(report, limit))

    def _goes_by_text(self, report: SuiteReport, limit: float) -> bool:
        """Asked twice before it is held against somebody: a test may fail for reasons of its own."""
        text = self.checkout.worktree.text
        if not any(may_read_source(text(path)) for path in (*self.claim.tests, *self._python_code)):
            return False
        code = {path: rewritten(text(path)) for path in self._python_code}
        others = {path: other for path, other in code.items() if other is not None}
        return all(self._passed_with(others, limit) != report.passed for _ in range(2))

    def _passed_with(self, files: Mapping[str, str], limit: float) -> frozenset[str]:
        try:
            run = self.run(
                lambda tests: tests.some(self.claim.tests, timeout_seconds=limit),
                lambda place: _put(place, files),
            )
        except SuiteKilled:
            # The mistake may have eaten all memory: that is noticed.
            return frozenset()
        return run.passed if not run.problem and not run.timed_out else frozenset()

    @property
    def _python_code(self) -> list[str]:
        return [path for path in self.claim.code if path.endswith(".py")]

    def _mutants(self) -> list[Mutant]:
        """The strongest of each changed file first."""
        text, lines = self.checkout.worktree.text, self.claim.changed_lines
        per_file = [mutants(path, text(path), lines[path], _MOST_MUTANTS) for path in self._python_code]
        rows = itertools.zip_longest(*per_file)
        return [mutant for row in rows for mutant in row if mutant is not None][:_MOST_MUTANTS]


def _put(place: ProjectWorktree, files: Mapping[str, str]) -> None:
    place.put_files(files, Policy(protected=()))


def _former_tests(place: ProjectWorktree, base: str, changed: Sequence[str]) -> tuple[str, ...]:
    """Tests, and what serves them, that the branch changed or deleted."""
    names = place.worktree.git().run("ls-tree", "-r", "--name-only", "-z", base).stdout.split("\0")
    known = {str(PurePosixPath(name)) for name in names if name}
    return tuple(path for path in changed if is_test_path(path) and str(PurePosixPath(place.folder, path)) in known)


def _owed(claim: Claim, former: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Which former tests have to pass still, and which need not since the design is about them (pure)."""
    before = claim.baseline.suite.passed
    runs_all = not all(is_test_file(path) for path in former) or claim.baseline.suite.cases is None
    ids = {case for case in before if runs_all or case.partition("::")[0] in former}
    excused = frozenset(case for case in ids if case.partition("::")[0] in claim.listed)
    return frozenset(ids) - excused, excused
