"""What counts as a test, and what of a test run is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.git.worktrees import Worktree
from agentos.sandbox.isolation import Isolation
from agentos.settings import Implementation, Settings
from agentos.workflows.context import Context
from agentos.workflows.implementation.judging import GreenVerdict
from agentos.workflows.implementation.project_tests import (
    ProjectTests,
    is_test_path,
    without_old_failures,
)
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.rounds import failing_ids, feedback
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, FileCoverage, SuiteReport
from agentos.workflows.stage_records import as_plain, as_record


def report(*cases: tuple[str, CaseStatus], exit_code: int = 1, output: str = "") -> SuiteReport:
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
    original = report(("t.py::a", CaseStatus.PASSED), ("t.py::b", CaseStatus.FAILED))

    restored = as_record(SuiteReport, json.loads(json.dumps(as_plain(original.kept()))))

    assert restored == original.kept()
    assert (restored.passed, restored.failing) == (original.passed, original.failing)
    by_exit_code = as_record(SuiteReport, as_plain(replace(original, cases=None).kept()))
    assert by_exit_code.failing == {"python -m pytest"}


def test_failures_of_before_are_not_this_changes() -> None:
    before = report(("t.py::old", CaseStatus.FAILED))
    now = report(("t.py::old", CaseStatus.FAILED), ("t.py::new", CaseStatus.PASSED))

    assert without_old_failures(now, before).is_success
    worse = report(("t.py::old", CaseStatus.FAILED), ("t.py::new", CaseStatus.FAILED))
    assert without_old_failures(worse, before).failing == {"t.py::new"}


def test_a_file_that_cannot_be_collected_counts_as_all_its_tests() -> None:
    verdict = GreenVerdict(failing=("tests/test_a.py",), missing=("tests/test_b.py::x",), problem="crashed")

    failing = failing_ids(verdict, ["tests/test_a.py"], ["tests/test_a.py::one", "tests/test_a.py::two"])

    assert failing == {"tests/test_a.py::one", "tests/test_a.py::two", "tests/test_b.py::x", "the test run itself"}


def test_the_next_round_is_told_what_failed_what_was_not_run_and_what_was_refused() -> None:
    failed = report(("t.py::b", CaseStatus.FAILED), output="the end of it")
    verdict = GreenVerdict(failing=("t.py::b",), shortfalls={"a.py": 80.0}, problem="it crashed")

    told = feedback(verdict, failed, failed, ["../x: out of bounds"])

    assert "t.py::b broke" in told
    assert "a.py: 80 % covered; not run: lines 3, 4" in told
    assert "the end of it" in told
    assert "Refused: ../x: out of bounds" in told


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectWorktree:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    top = tmp_path / "worktree"
    (top / "services/api").mkdir(parents=True)
    return ProjectWorktree(Worktree(top, "", None, top / ".git"), "services/api")


def test_a_command_of_ones_own_runs_in_the_projects_folder_with_its_reports(
    place: ProjectWorktree, tmp_path: Path
) -> None:
    (place.path / "a.js").write_text("x\n")
    (place.worktree.path / "top.txt").write_text("shared\n")
    junit = '<testsuite><testcase name="old"><failure/></testcase><testcase name="new"/></testsuite>'
    lcov = "SF:a.js\\nDA:1,1\\nend_of_record\\n"
    command = f"cat ../../top.txt; echo '{junit}' > r.xml; printf '{lcov}' > l.info; false"
    chosen = Implementation(test=command, junit="r.xml", coverage="l.info", test_timeout_seconds=30)
    tests = ProjectTests(Context(project_dir=tmp_path, settings=Settings(implementation=chosen)), place)

    suite = tests.suite()

    assert suite.output == "shared\n"
    assert (suite.failing, suite.passed) == ({"old"}, {"new"})
    assert suite.coverage == {"a.js": FileCoverage(1, ())}
    new = tests.new_tests(["tests/new.js"], suite)
    assert (new.failing, new.exit_code, new.is_success) == (frozenset(), 0, True)


@pytest.mark.needs_bubblewrap
def test_secrets_beside_and_above_the_project_are_hidden_from_its_tests(
    place: ProjectWorktree, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout/services/api"
    checkout.mkdir(parents=True)
    secrets = [checkout / ".env", checkout.parent / ".env.local", checkout.parents[1] / ".env"]
    for path in secrets:
        path.write_text("KEY=sesame\n")
    chosen = Implementation(test=f"cat {' '.join(map(str, secrets))}; touch ../outside; touch inside")

    report = ProjectTests(Context(project_dir=checkout, settings=Settings(implementation=chosen)), place).suite()

    assert report.isolation is Isolation.BWRAP
    assert "sesame" not in report.output
    assert not (place.path.parent / "outside").exists()
    assert (place.path / "inside").exists()
