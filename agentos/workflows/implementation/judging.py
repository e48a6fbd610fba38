"""Judges test runs: red for the right reason, green enough, or going in circles (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from agentos.workflows.implementation.assertions import test_functions
from agentos.workflows.implementation.suite_report import (
    CaseResult,
    CaseStatus,
    FileCoverage,
    SuiteReport,
    without_parameters,
)

# Exit codes of shells and of pytest that mean: the tests were not run.
_NOT_RUN_EXIT_CODES: Final = {126: "the command cannot be executed", 127: "the command was not found"}
_SYNTAX_ERRORS: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})
_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
# What missing code looks like from a test; Failed is pytest's word for an exception that was not raised.
_RIGHT_ERRORS: Final = frozenset({"AssertionError", "AttributeError", "NotImplementedError", "TypeError", "Failed"})
# What no coverage tool measures.
_NOT_CODE: Final = frozenset({"", ".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".lock"})
_PROGRESS_ROUNDS: Final = 3
_OUTPUT_TAIL_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class WrongFailure:
    """A test that fails, but not because the code is missing."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class RedVerdict:
    """Whether new tests fail as they should before the code is written."""

    failing_rightly: tuple[str, ...] = ()
    wrong: tuple[WrongFailure, ...] = ()
    passing_already: tuple[str, ...] = ()
    """Told, and refused once the code is there unless they notice a mistake in it."""
    problem: str | None = None
    """Why the run as a whole cannot be judged."""

    @property
    def is_red(self) -> bool:
        return self.problem is None and bool(self.failing_rightly) and not self.wrong

    def words(self) -> str:
        """One line."""
        parts = [self.problem] if self.problem else []
        parts += [f"{len(self.failing_rightly)} fail as they should"] if self.failing_rightly else []
        for failure in self.wrong[:1]:
            parts.append(f"{len(self.wrong)} for the wrong reason ({failure.id}: {failure.why})")
        parts += [f"{len(self.passing_already)} pass already"] if self.passing_already else []
        return "; ".join(parts)


def judge_red(report: SuiteReport, *, modules_under_test: Collection[str] = ()) -> RedVerdict:
    """Judge the first run of new tests.

    `modules_under_test` are the dotted names the LLD adds or changes; a failing import of anything else is then a
    missing dependency. Without them every failing import counts as missing code.
    """
    if problem := _run_problem(report):
        return RedVerdict(problem=problem)
    if report.cases is None:
        whole = (report.command,)
        return RedVerdict(failing_rightly=whole) if report.exit_code else RedVerdict(passing_already=whole)
    if not report.cases:
        return RedVerdict(problem="no test was collected")
    rightly, wrong, passing = [], [], []
    for case in report.cases:
        if case.status in (CaseStatus.PASSED, CaseStatus.XPASSED):
            passing.append(case.id)
        elif why := _why_wrong(case, modules_under_test):
            wrong.append(WrongFailure(case.id, why))
        else:
            rightly.append(case.id)
    return RedVerdict(tuple(rightly), tuple(wrong), tuple(passing))


def _run_problem(report: SuiteReport) -> str | None:
    if report.timed_out:
        return f"the tests did not finish in {report.seconds:.0f} s"
    if report.problem:
        return report.problem
    if report.exit_code is None:
        return f"the tests crashed: {_tail(report.output)}"
    if report.cases is None and report.exit_code in _NOT_RUN_EXIT_CODES:
        return f"{_NOT_RUN_EXIT_CODES[report.exit_code]}: {_tail(report.output)}"
    return None


def _tail(output: str) -> str:
    return " | ".join(line.strip() for line in output.splitlines() if line.strip())[-_OUTPUT_TAIL_CHARACTERS:]


def _gist(message: str) -> str:
    """The lines pytest marks as the error; they stand above pages of hints."""
    marked = [line[1:] for line in message.splitlines() if line.startswith("E ")]
    return _tail("\n".join(marked) or message)


def _why_wrong(case: CaseResult, modules_under_test: Collection[str]) -> str | None:
    """Why a failure says nothing about missing code, or None when it is the right kind."""
    if case.status is CaseStatus.SKIPPED:
        return "it is skipped"
    if case.status is CaseStatus.XFAILED:
        return "it is marked to fail (xfail)"
    error = case.error_type
    if error in _SYNTAX_ERRORS:
        return f"{error} in {case.raised_in or 'the test'}"
    if error in _IMPORT_ERRORS:
        return _why_import_wrong(case.missing_module, modules_under_test)
    if error in _RIGHT_ERRORS:
        return None
    if error is None:
        return f"it cannot be set up: {_gist(case.message)}"
    if case.raised_in is not None and not is_test_file(case.raised_in):
        return None
    return f"{error} is raised by the test itself, not by the code under test"


def _why_import_wrong(missing: str | None, modules_under_test: Collection[str]) -> str | None:
    if not modules_under_test or missing is None:
        return None
    if any(_is_same_branch(missing, module) for module in modules_under_test):
        return None
    return f"it needs the module {missing}, which is not part of the change: is a dependency missing?"


def _is_same_branch(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def is_test_file(path: str) -> bool:
    """Whether a path is a test by pytest's own habit of naming them."""
    name = PurePosixPath(path.replace("\\", "/")).name
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


def module_name(path: str) -> str | None:
    """The dotted name a Python file is imported by, a leading `src` left out; None for other files."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py":
        return None
    parts = [*pure.parts[:-1], pure.stem]
    parts = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def defined_tests(path: str, source: str) -> tuple[str, ...]:
    """The ids of the tests a Python file defines, read and not run; empty when it cannot be parsed."""
    return tuple(f"{path}::{name}" for name in test_functions(source))


@dataclass(frozen=True, slots=True)
class GreenVerdict:
    """Whether the work is done: every claim checked, and what could not be checked named."""

    failing: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Tests that must pass and were not run, or were skipped: a test that vanished is not a test that passed."""
    shortfalls: Mapping[str, float] | None = None
    """Changed files whose changed lines are below the coverage target, with their percentage."""
    coverage_percent: float | None = None
    regressions: tuple[str, ...] = ()
    """Tests of the project that passed before and do not now."""
    former_failing: tuple[str, ...] = ()
    """Tests that existed and fail among the tests as they were, without what the branch changes or adds there."""
    weakness: str = ""
    """Why the new tests prove nothing although they pass: more code would not help."""
    unverified: tuple[str, ...] = ()
    """Checks that could not run. Not verified is not passed."""
    problem: str | None = None

    @property
    def is_green(self) -> bool:
        return self.is_green_as_far_as_known and not self.unverified

    @property
    def is_green_as_far_as_known(self) -> bool:
        found = (self.failing, self.missing, self.shortfalls, self.regressions, self.former_failing)
        return not (self.problem or self.weakness or any(found))

    def words(self) -> str:
        """One line."""
        parts = [words for words in (self.problem, self.weakness) if words]
        for noun, ids in (
            ("failing", self.failing),
            ("not run", self.missing),
            ("worse than before", self.regressions),
            ("failing with the tests as they were before", self.former_failing),
        ):
            parts += [f"{len(ids)} {noun} ({ids[0]})"] if ids else []
        shortfalls = (self.shortfalls or {}).items()
        parts += [f"{path} is covered {percent:.0f} % where it is changed" for path, percent in shortfalls]
        if not parts:
            # Of what is not green it is clear enough that not everything was looked at.
            parts = [f"not verified: {check}" for check in self.unverified]
        return "; ".join(parts) or "all tests pass"


def judge_green(
    report: SuiteReport,
    *,
    expected: Collection[str] = (),
    changed_files: Collection[str] = (),
    changed_lines: Mapping[str, Collection[int]] | None = None,
    coverage_target: float | None = None,
    suite_before: SuiteReport | None = None,
    suite_after: SuiteReport | None = None,
    former: SuiteReport | None = None,
    owed: Collection[str] = (),
    excused: Collection[str] = (),
) -> GreenVerdict:
    """Judge a run after the code was written.

    `expected` are ids that must have passed (parameters may be left out); `changed_files` those that are there still,
    with their `changed_lines` where these are known: the coverage of the others counts as a whole.
    `suite_before` and `suite_after` are the
    project's own suite without and with the change; without `suite_before` nothing is compared. Of `former`, a run of
    the tests as they were, the ids in `owed` have to pass; `excused` ones may be gone.
    """
    unverified = []
    missing: tuple[str, ...] = ()
    if report.cases is not None:
        missing = _not_passed(expected, report)
    elif expected:
        unverified.append("which tests ran, since the command leaves no JUnit file")
    covered: Mapping[str, FileCoverage] = {}
    if coverage_target is not None:
        whole, unmeasured = _coverage_of_changed(report, changed_files)
        covered = {path: file.only((changed_lines or {}).get(path)) for path, file in whole.items()}
        unverified += unmeasured
    if suite_before is not None and suite_after is None:
        unverified.append("the project's own suite, since it was not run again")
    return GreenVerdict(
        failing=tuple(sorted(report.failing)),
        missing=missing,
        shortfalls={path: file.percent for path, file in covered.items() if file.percent < (coverage_target or 0)},
        coverage_percent=_total_percent(covered) if covered else None,
        regressions=_regressions(suite_before, suite_after, excused) if suite_before and suite_after else (),
        former_failing=tuple(sorted(set(owed) - former.passed)) if former and former.cases is not None else (),
        unverified=tuple(unverified),
        problem=_run_problem(report) or _silent_failure(report) or _suite_problem(suite_after, former),
    )


def _suite_problem(*runs: SuiteReport | None) -> str | None:
    """A run that proves nothing. One that merely fails is compared with how it was before."""
    return next((problem for run in runs if run is not None and (problem := _run_problem(run))), None)


def _silent_failure(report: SuiteReport) -> str | None:
    if report.cases is not None and not report.cases:
        return "no test was collected"
    if report.exit_code and not report.failing:
        return f"no test fails, yet the command ended with exit code {report.exit_code}: {_tail(report.output)}"
    return None


def _not_passed(expected: Collection[str], report: SuiteReport) -> tuple[str, ...]:
    """Failing ones are not repeated here. A parametrised test counts when it ran with any parameters."""
    ran = report.passed | report.failing
    known = ran | {without_parameters(case_id) for case_id in ran} | {case_id.partition("::")[0] for case_id in ran}
    return tuple(sorted(case_id for case_id in set(expected) if case_id not in known))


def _coverage_of_changed(
    report: SuiteReport, changed_files: Collection[str]
) -> tuple[dict[str, FileCoverage], list[str]]:
    """Changed files with their coverage, and what is not known about others, in words.

    A report covers the languages of the files in it: a changed file of another kind has no coverage to speak of.
    """
    changed = sorted(path for path in changed_files if not is_test_file(path))
    if report.coverage is None:
        wanted = [path for path in changed if PurePosixPath(path).suffix not in _NOT_CODE]
        return {}, [f"coverage, since {report.coverage_problem}"] if wanted else []
    suffixes = {PurePosixPath(path).suffix for path in report.coverage}
    unknown = [path for path in changed if path not in report.coverage and PurePosixPath(path).suffix in suffixes]
    words = [f"coverage of {', '.join(unknown)}, since the report has nothing on it"] if unknown else []
    return {path: report.coverage[path] for path in changed if path in report.coverage}, words


def _total_percent(covered: Mapping[str, FileCoverage]) -> float:
    parts = sum(file.parts for file in covered.values())
    missing = sum(file.missing_parts for file in covered.values())
    return 100.0 if not parts else 100.0 * (1 - missing / parts)


def _regressions(before: SuiteReport, after: SuiteReport, excused: Collection[str]) -> tuple[str, ...]:
    if before.cases is None or after.cases is None:
        got_worse = before.exit_code == 0 and not after.is_success
        return (after.command,) if got_worse else ()
    known = {case.id for case in after.cases}
    gone = {case_id for case_id in excused if case_id not in known}
    return tuple(sorted((after.failing - before.failing) | (before.passed - after.passed - gone)))


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of implementing came to."""

    failing: frozenset[str]
    coverage_percent: float | None = None
    commit: str = ""
    words: str = ""

    @property
    def score(self) -> tuple[int, float]:
        """Lower is better: fewer failing tests first, then more coverage."""
        return len(self.failing), -(self.coverage_percent or 0.0)


@dataclass(frozen=True, slots=True)
class Stagnation:
    """The rounds lead nowhere."""

    reason: str


def find_stagnation(rounds: Sequence[Round]) -> Stagnation | None:
    """Whether to stop: the same tests fail twice in a row, or three rounds brought no progress."""
    if len(rounds) >= 2 and rounds[-1].failing == rounds[-2].failing and rounds[-1].score >= rounds[-2].score:
        count = len(rounds[-1].failing)
        what = (
            f"the same {count} tests fail"
            if count > 1
            else "the same test fails"
            if count
            else "coverage does not rise"
        )
        return Stagnation(f"{what} in rounds {len(rounds) - 1} and {len(rounds)}")
    earlier, latest = rounds[:-_PROGRESS_ROUNDS], rounds[-_PROGRESS_ROUNDS:]
    if earlier and min(latest_round.score for latest_round in latest) >= min(past.score for past in earlier):
        return Stagnation(f"no progress in the last {_PROGRESS_ROUNDS} rounds")
    return None


def best_round(rounds: Sequence[Round]) -> int:
    """The index of the round to keep: the first of the best."""
    return min(range(len(rounds)), key=lambda index: rounds[index].score)
