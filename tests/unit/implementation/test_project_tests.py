"""What counts as a test, and what of a test run is kept."""

from __future__ import annotations

import pytest

from agentos.workflows.implementation.judging import GreenVerdict
from agentos.workflows.implementation.project_tests import (
    is_test_path,
    report_data,
    stored_report,
    without_old_failures,
)
from agentos.workflows.implementation.rounds import failing_ids, feedback
from agentos.workflows.implementation.sandbox import Isolation
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.implementation.test_report import CaseResult, FileCoverage, Outcome, SuiteReport


def report(*cases: tuple[str, Outcome], exit_code: int = 1, output: str = "") -> SuiteReport:
    return SuiteReport(
        command="python -m pytest",
        exit_code=exit_code,
        timed_out=False,
        output=output,
        seconds=1.0,
        isolation=Isolation.NONE,
        cases=tuple(CaseResult(case_id, outcome, message=f"{case_id} broke") for case_id, outcome in cases),
        coverage={"a.py": FileCoverage(10, (3, 4))},
    )


@pytest.mark.parametrize(
    "path", ["tests/data/x.json", "test_a.py", "src/a_test.go", "web/app.test.ts", "a/__tests__/b.js", "AppTest.java"]
)
def test_tests_are_known_by_place_or_name(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize("path", ["src/contest.py", "latest.py", "attest/a.py", "docs/testing-notes.md"])
def test_other_files_are_not_taken_for_tests(path: str) -> None:
    assert not is_test_path(path)


def test_a_stored_report_judges_like_the_one_it_was() -> None:
    original = report(("t.py::a", Outcome.PASSED), ("t.py::b", Outcome.FAILED))

    restored = stored_report(report_data(original))

    assert (restored.passed, restored.failing) == (original.passed, original.failing)
    assert stored_report({**report_data(original), "cases": None}).failing == {"python -m pytest"}


def test_failures_of_before_are_not_this_changes() -> None:
    before = report(("t.py::old", Outcome.FAILED))
    now = report(("t.py::old", Outcome.FAILED), ("t.py::new", Outcome.PASSED))

    assert without_old_failures(now, before).is_success
    worse = report(("t.py::old", Outcome.FAILED), ("t.py::new", Outcome.FAILED))
    assert without_old_failures(worse, before).failing == {"t.py::new"}


def test_a_file_that_cannot_be_collected_counts_as_all_its_tests() -> None:
    verdict = GreenVerdict(failing=("tests/test_a.py",), missing=("tests/test_b.py::x",), problem="crashed")

    failing = failing_ids(verdict, ["tests/test_a.py"], ["tests/test_a.py::one", "tests/test_a.py::two"])

    assert failing == {"tests/test_a.py::one", "tests/test_a.py::two", "tests/test_b.py::x", "the test run itself"}


def test_the_next_round_is_told_what_failed_what_was_not_run_and_what_was_refused() -> None:
    failed = report(("t.py::b", Outcome.FAILED), output="the end of it")
    verdict = GreenVerdict(failing=("t.py::b",), shortfalls={"a.py": 80.0}, problem="it crashed")

    told = feedback(verdict, failed, failed, ImplementationState(refusals=["../x: out of bounds"]))

    assert "t.py::b broke" in told
    assert "a.py: 80 % covered; not run: lines 3, 4" in told
    assert "the end of it" in told
    assert "Refused: ../x: out of bounds" in told
