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

from agentos.text.words import counted
from agentos.workflows.context import Context
from agentos.workflows.implementation.assertions import function_names, names_from, without_assertion
from agentos.workflows.implementation.clean_checkout import (
    CleanCheckout,
    changed_configuration,
    clean_checkout,
    put_back,
)
from agentos.workflows.implementation.control_runs import (
    NotChangeable,
    control_problem,
    hidden_failures,
    made_to_fail,
)
from agentos.workflows.implementation.file_operations import Policy
from agentos.workflows.implementation.judging import defined_tests, is_test_file, module_name
from agentos.workflows.implementation.mutation import Mutant, mutants, only_computes, rewritten, with_imports
from agentos.workflows.implementation.project_tests import ProjectTests, is_test_path
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.state import Baseline
from agentos.workflows.implementation.suite_report import (
    CHANGING,
    Reached,
    SuiteKilled,
    SuiteReport,
    without_parameters,
)

_QUICK_SECONDS: Final = 20.0
"""A suite that takes longer is not run a third time as a whole."""
_SAMPLED_FILES: Final = 10
_MOST_MUTANTS: Final = 4
_MOST_FURTHER_MUTANTS: Final = 4
"""For tests that none of the first made fail."""
_LEAST_MUTANT_SECONDS: Final = 20.0
_RUN_OF_A_MACHINE: Final = "runTest"
"""The name of tests that libraries make of a class, such as Hypothesis of a state machine."""


_LEFT_TO_CODE: Final = "leaves its assertion to code of the branch: what must hold is written before the code"


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
    passing_already: Collection[str] = ()
    """New tests that passed before there was code."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """Whether the new tests notice mistakes in the changed lines."""

    tried: tuple[str, ...] = ()
    """Each mistake in words."""
    noticed: int = 0
    goes_by_text: bool = False
    """Whether tests fail on the same code in other words: then they notice every mistake, and say nothing."""
    unmoved: tuple[str, ...] = ()
    """New tests that passed with every mistake, by id without parameters."""
    never_failed: tuple[str, ...] = ()
    """Those of them that passed before there was code, too."""

    @property
    def weakness(self) -> str:
        if self.goes_by_text:
            return (
                "the new tests fail once the same code is written in other words: they depend on its text, its file "
                "or how it is compiled, not on what it does"
            )
        if self.tried and self.never_failed:
            return (
                f"{counted(len(self.never_failed), 'new test')} passed before there was code, and with each of "
                f"{counted(len(self.tried), 'mistake')} in it ({self.never_failed[0]}): what cannot fail proves "
                "nothing; remove it, or test what the design adds"
            )
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
    """Tests that existed, as they were; None when nothing could be hidden from them."""
    owed: frozenset[str] = frozenset()
    """Ids that `former` has to pass."""
    excused: frozenset[str] = frozenset()
    """Ids of tests that the design says are changed: whether they pass as they were is told and no more."""
    forgery: str | None = None
    """What shows that the results are not pytest's own, in words."""
    mutation: Mutation | None = None
    """What the new tests said of code broken on purpose; None when it was not asked."""
    unread: str = ""
    """Why nobody could read what a new test asserts before there was code, in words."""
    unsteady: str = ""
    """A new test that has other parameters in every run: no two runs of it can be compared."""
    written: tuple[str, ...] = ()
    """Modules and files of tests that the runs wrote: what needs them needs what is not committed."""
    unverified: tuple[str, ...] = ()
    """What could not be asked, in words."""
    reached: tuple[Reached, ...] = ()
    """What changed files, or somebody, reached for while tests ran."""

    @property
    def weakness(self) -> str:
        """Why the new tests prove nothing although they pass."""
        if self.written:
            return (
                f"{self.written[0]!r} is written while tests run, and what is not in the commit does not count: "
                "commit it, or write to a temporary folder"
            )
        if self.unsteady:
            return (
                f"{self.unsteady} has other parameters on every run, so that no two runs can be compared: "
                "give it parameters, or ids, that stay"
            )
        if self.unread:
            return self.unread
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
            return Proof(new_tests=report, reached=_reached(claim, report))
        suite = trial.run(lambda tests: tests.suite(measure=claim.code))
        former = _former_tests(clean, claim.baseline, changed, suite.seconds)
        owed, excused = _owed(claim, former)
        reached = _reached(claim, report, suite)
        written = _written(claim, reached, report, suite)
        proof = Proof(new_tests=report, suite=suite, owed=owed, excused=excused, written=written, reached=reached)
        proof = replace(proof, unsteady=_unsteady(report, suite))
        if not is_worth_it(proof):
            return proof
        if former:
            run = trial.run(
                lambda tests: tests.files_as_they_are(former),
                lambda place: put_back(place, base, [path for path in changed if is_test_path(path)]),
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
        mark = f"control{secrets.token_hex(8)}"
        files, unchangeable = self._ours(reports[-1].seconds, mark)
        forgery, by_looks = self._forgery(reports, files, mark) if files else (None, ())
        mutation = self._mutation(proof.new_tests)
        unverified = [f"whether the results of {path} are pytest's own: {why}" for path, why in unchangeable.items()]
        unverified += [f"{test}, which passes as it is written and fails in other words" for test in by_looks[:3]]
        if self._python_code and not mutation.tried:
            unverified.append("whether the new tests notice mistakes, since none could be made in the changed lines")
        unread = self._unread(proof.new_tests)
        return {"forgery": forgery, "mutation": mutation, "unread": unread, "unverified": tuple(unverified)}

    def _ours(self, suite_seconds: float, mark: str) -> tuple[dict[str, str], dict[str, str]]:
        """Test files made to fail, and files that cannot be changed, with the reason."""
        ours, unchangeable = {}, {}
        for path in self._control_files(suite_seconds):
            try:
                if failing := made_to_fail(self.checkout.worktree.text(path), mark):
                    ours[path] = failing
            except NotChangeable as error:
                unchangeable[path] = str(error)
        return ours, unchangeable

    def _forgery(
        self, reports: Sequence[SuiteReport], ours: Mapping[str, str], mark: str
    ) -> tuple[str | None, tuple[str, ...]]:
        """What shows that results are not pytest's own, and old tests that go by how they look."""
        text = self.checkout.worktree.text
        changed = {test_id for path in ours for test_id in defined_tests(path, text(path))}
        control = self._run_ours(ours)
        if problem := control_problem(reports, control, changed, mark):
            return problem, ()
        hidden = hidden_failures(reports, control, changed, mark)
        if hidden:
            # Asked twice before it is held against somebody: a test may fail for reasons of its own.
            again = hidden_failures(reports, self._run_ours(ours), changed, mark)
            hidden = tuple(test for test in hidden if test in again)
        old = tuple(test for test in hidden if test in self._before)
        new = tuple(test for test in hidden if test in reports[0].passed and test not in old)
        if old and not new:
            # What was so without the change is not the change's doing.
            with clean_checkout(self.context, self.claim.baseline.commit) as before:
                control = replace(self, checkout=before)._run_ours(ours)
            known = hidden_failures(reports, control, changed, mark)
            new = tuple(test for test in old if test not in known)
        if not new:
            return None, hidden
        words = "passes as it is written and fails in other words that assert the same"
        return f"{new[0]} {words}: it goes by how the test looks, not by what the code does", hidden

    def _run_ours(self, ours: Mapping[str, str]) -> SuiteReport:
        return self.run(lambda tests: tests.some(list(ours)), lambda place: _put(place, ours))

    @property
    def _before(self) -> set[str]:
        return {case.id for case in self.claim.baseline.suite.cases or ()}

    def _unread(self, report: SuiteReport) -> str:
        """The first new test that asserts what no test file says, in words; one may inherit from another file."""
        place, base = self.checkout.worktree, self.claim.baseline.commit
        sources = {path: place.text(path) for path in place.python_files() if is_test_path(path)}
        known = {_RUN_OF_A_MACHINE}.union(*map(function_names, sources.values()))
        with_the_code = {module_name(path) or "" for path in self._python_code}
        for path in filter(is_test_file, set(self.claim.tests) & set(sources)):
            before = place.text_at(base, path)
            for name in without_assertion(sources[path], sources, before, under_test=with_the_code):
                return f"{path}::{name} {_LEFT_TO_CODE}"
        for test in sorted(report.passed - self._before):
            path, _, name = without_parameters(test).partition("::")
            if name.rpartition("::")[2] not in known:
                return f"{test} is made while its file is loaded: write it down, so that it can be read"
            is_inherited = f"{path}::{name}" not in defined_tests(path, sources.get(path, ""))
            if is_inherited and set(name.split("::")) & names_from(sources.get(path, ""), with_the_code):
                return f"{test} {_LEFT_TO_CODE}"
        return ""

    def _control_files(self, suite_seconds: float) -> list[str]:
        """Every test file if the suite is quick, else the new ones and some that code cannot guess."""
        files = [path for path in self.checkout.worktree.python_files() if is_test_file(path)]
        if suite_seconds > _QUICK_SECONDS:
            files = list(dict.fromkeys((*self.claim.tests, *_sampled(files))))
        return [path for path in files if PurePosixPath(path).name != "conftest.py"]

    def _mutation(self, report: SuiteReport) -> Mutation:
        """Break changed lines one after the other until every new test has been seen failing."""
        new = {test: without_parameters(test) for test in report.passed - self._before}
        unmoved, noticed = set(new.values()), 0
        tried: list[str] = []
        limit = max(_LEAST_MUTANT_SECONDS, 4 * report.seconds)
        first, further = self._mutants()
        for number, mutant in enumerate((*first, *further)):
            is_weak = number >= len(first) and not noticed
            if is_weak or (tried and not unmoved):
                break
            files = {mutant.path: mutant.source}
            passed = self._passed_with(files, limit)
            if passed != report.passed and not noticed and self._may_look:
                # A test that fails by chance has noticed nothing.
                passed |= self._passed_with(files, limit)
            tried.append(f"{mutant.path} line {mutant.line} {mutant.what}")
            noticed += passed != report.passed
            unmoved -= {name for test, name in new.items() if test not in passed}
        early = {without_parameters(test) for test in self.claim.passing_already}
        return Mutation(
            tried=tuple(tried),
            noticed=noticed,
            goes_by_text=noticed > 0 and self._goes_by_text(report, limit),
            unmoved=tuple(sorted(unmoved)),
            never_failed=tuple(sorted(unmoved & early)),
        )

    @property
    def _may_look(self) -> bool:
        """Whether what the branch brings can go by more than values: hardly any that computes something does."""
        place = self.checkout.worktree
        files = place.python_files()
        own = {part.removesuffix(".py") for path in files for part in PurePosixPath(path).parts}
        # Fixtures are given without an import.
        given = [path for path in files if PurePosixPath(path).name == "conftest.py"]
        first = [*given, *(path for path in (*self.claim.tests, *self.claim.code) if path.endswith(".py"))]
        return not all(only_computes(place.text(path), own) for path in with_imports(first, files, place.text))

    def _goes_by_text(self, report: SuiteReport, limit: float) -> bool:
        """Asked twice before it is held against somebody: a test may fail for reasons of its own."""
        if not self._may_look:
            return False
        code = {path: rewritten(self.checkout.worktree.text(path)) for path in self._python_code}
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
        return run.passed_whole if not run.problem and not run.timed_out else frozenset()

    @property
    def _python_code(self) -> list[str]:
        return [path for path in self.claim.code if path.endswith(".py")]

    def _mutants(self) -> tuple[list[Mutant], list[Mutant]]:
        """The strongest of each changed file's changed lines, and further ones in any line of these files."""
        text, lines = self.checkout.worktree.text, self.claim.changed_lines
        changed = [mutants(path, text(path), lines[path], _MOST_MUTANTS) for path in self._python_code]
        anywhere = [
            mutants(path, source, range(1, source.count("\n") + 2), _MOST_MUTANTS + _MOST_FURTHER_MUTANTS)
            for path in self._python_code
            for source in [text(path)]
        ]
        first = _in_turn(changed)[:_MOST_MUTANTS]
        further = [mutant for mutant in _in_turn(anywhere) if mutant not in first]
        return first, further[:_MOST_FURTHER_MUTANTS]


def _in_turn(per_file: Sequence[Sequence[Mutant]]) -> list[Mutant]:
    return [mutant for row in itertools.zip_longest(*per_file) for mutant in row if mutant is not None]


def _reached(claim: Claim, *runs: SuiteReport) -> tuple[Reached, ...]:
    """What files of the branch reached for, or nobody knows who: unless that was so before (pure)."""
    known, changed = {one.what for one in claim.baseline.suite.reached}, {*claim.code, *claim.tests}
    found = [one for run in runs for one in run.reached]
    return tuple(
        dict.fromkeys(one for one in found if one.path in changed or (not one.path and one.what not in known))
    )


def _unsteady(first: SuiteReport, second: SuiteReport) -> str:
    """A test that passed in the first run and ran with other parameters in the second one (pure)."""
    ran = {case.id for case in second.cases or ()}
    others = {without_parameters(test) for test in ran}
    return next((test for test in sorted(first.passed - ran) if without_parameters(test) in others), "")


def _written(claim: Claim, reached: Sequence[Reached], *runs: SuiteReport) -> tuple[str, ...]:
    """What runs wrote that decides about code, there still or not, unless the suite did so before (pure)."""
    told = (one.what.removeprefix(CHANGING) for one in reached if one.what.startswith(CHANGING))
    found = {*(path for path in told if path.endswith(".py")), *(path for run in runs for path in run.written)}
    return tuple(sorted(found.difference(claim.baseline.suite.written)))


def _put(place: ProjectWorktree, files: Mapping[str, str]) -> None:
    place.put_files(files, Policy(protected=()))


def _former_tests(
    place: ProjectWorktree, baseline: Baseline, changed: Sequence[str], suite_seconds: float
) -> tuple[str, ...]:
    """Tests, and what serves them, to be run as they were, without what the branch adds among them.

    Those that the branch changed or deleted. Where it changes other files, any test may pass for the sake of
    something new: then every test of before, or, when the suite takes long, some that code cannot guess.
    """
    names = place.worktree.git().run("ls-tree", "-r", "--name-only", "-z", baseline.commit).stdout.split("\0")
    known = {str(PurePosixPath(name)) for name in names if name}
    touched = [path for path in changed if str(PurePosixPath(place.folder, path)) in known]
    own = [path for path in touched if is_test_path(path)]
    others = sorted({case.partition("::")[0] for case in baseline.suite.passed}) if len(own) < len(touched) else []
    if suite_seconds > _QUICK_SECONDS:
        others = _sampled([path for path in others if is_test_file(path)])
    return tuple(dict.fromkeys((*own, *others)))


def _sampled(files: Sequence[str]) -> list[str]:
    """Some that code cannot guess."""
    return random.SystemRandom().sample(files, min(len(files), _SAMPLED_FILES))


def _owed(claim: Claim, former: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Which former tests have to pass still, and which need not since the design is about them (pure)."""
    before = claim.baseline.suite.passed
    runs_all = not all(is_test_file(path) for path in former) or claim.baseline.suite.cases is None
    ids = {case for case in before if runs_all or case.partition("::")[0] in former}
    excused = frozenset(case for case in ids if case.partition("::")[0] in claim.listed)
    return frozenset(ids) - excused, excused
