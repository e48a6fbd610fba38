"""A broken environment and failing tests are two things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentos.sandbox.isolation import Isolation
from agentos.workflows.implementation.suite_environment import Surroundings, environment_problem
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, SuiteReport

AROUND = Surroundings(
    tracked={"src/humanize/__init__.py", "tests/test_a.py"}, has_file=lambda path: path == "src/humanize/_version.py"
)


def report(*cases: CaseResult, exit_code: int | None = 1, output: str = "") -> SuiteReport:
    return SuiteReport(
        command="x",
        exit_code=exit_code,
        timed_out=False,
        output=output,
        seconds=9,
        isolation=Isolation.NONE,
        cases=cases,
    )


def missing(module: str) -> CaseResult:
    return CaseResult("tests/test_a.py", CaseStatus.ERROR, is_collection_error=True, missing_module=module)


PASSED, FAILED = CaseResult("t::a", CaseStatus.PASSED), CaseResult("t::b", CaseStatus.FAILED)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (report(missing("humanize._version")), 'add `copy = ["src/humanize/_version.py"]` under [workstreams]'),
        (report(PASSED, missing("humanize._built")), "name the command that makes it"),
        (report(missing("numpy")), "needs numpy"),
        (report(exit_code=4, output="error: unrecognized arguments: --cov"), "unrecognized arguments: --cov"),
        (report(exit_code=3, output="INTERNALERROR> boom"), "boom"),
        (replace(report(), timed_out=True), "do not finish in 9 s"),
    ],
)
def test_a_broken_environment_is_told_with_what_mends_it(run: SuiteReport, words: str) -> None:
    assert words in str(environment_problem(run, AROUND))


@pytest.mark.parametrize(
    "run",
    [
        report(PASSED, exit_code=0),
        report(PASSED, FAILED),
        report(FAILED),
        report(exit_code=5),
        report(PASSED, missing("numpy")),
        replace(report(), cases=None, exit_code=1),
    ],
)
def test_failing_tests_are_no_broken_ground(run: SuiteReport) -> None:
    assert environment_problem(run, AROUND) is None


def test_empty_submodules_are_named_when_nothing_passes() -> None:
    around = replace(AROUND, empty_submodules=["vendor/lib"])
    assert "submodules are empty in a clean checkout (vendor/lib)" in str(environment_problem(report(FAILED), around))
    assert environment_problem(report(PASSED, FAILED), around) is None
