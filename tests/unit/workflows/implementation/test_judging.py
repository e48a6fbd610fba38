"""Red, green and stagnation, decided without running anything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.sandbox.isolation import Isolation
from agentos.workflows.implementation.judging import (
    Round,
    best_round,
    defined_tests,
    find_stagnation,
    judge_green,
    judge_red,
    module_name,
)
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, FileCoverage, SuiteReport


def report(*cases: CaseResult, exit_code: int | None = None, **options: object) -> SuiteReport:
    defaults: dict[str, object] = {
        "command": "pytest",
        "exit_code": exit_code if exit_code is not None else int(any(case.is_failing for case in cases)),
        "timed_out": False,
        "output": "the last words\n",
        "seconds": 1.0,
        "isolation": Isolation.NONE,
        "cases": cases,
    }
    return SuiteReport(**{**defaults, **options})  # type: ignore[arg-type]


def passed(case_id: str) -> CaseResult:
    return CaseResult(case_id, CaseStatus.PASSED)


def failed(
    case_id: str, error_type: str | None = "AssertionError", raised_in: str | None = "t/test_a.py"
) -> CaseResult:
    return CaseResult(case_id, CaseStatus.FAILED, error_type=error_type, raised_in=raised_in)


def test_red_needs_something_collected_and_failing() -> None:
    assert judge_red(report()).problem == "no test was collected"
    all_pass = judge_red(report(passed("a"), passed("b")))
    assert not all_pass.is_red
    assert all_pass.words() == "2 pass already"
    mixed = judge_red(report(passed("a"), failed("b")))
    assert mixed.is_red
    assert mixed.words() == "1 fail as they should; 1 pass already"


def test_one_wrong_failure_spoils_red_and_is_named() -> None:
    verdict = judge_red(report(failed("a"), failed("b", "NameError")))
    assert not verdict.is_red
    assert "1 for the wrong reason (b: NameError is raised by the test itself" in verdict.words()


def test_other_errors_count_only_from_the_code_under_test() -> None:
    assert judge_red(report(failed("a", "KeyError", "shop/cart.py"))).is_red
    assert not judge_red(report(failed("a", "KeyError", "tests/conftest.py"))).is_red
    assert not judge_red(report(failed("a", "KeyError", None))).is_red
    assert not judge_red(report(failed("a", None))).is_red


@pytest.mark.parametrize(
    ("missing", "is_red"),
    [("shop", True), ("shop.cart", True), ("shop.cart.x", True), ("shopping", False), (None, True)],
)
def test_failing_import_must_be_of_the_code_under_test(missing: str | None, is_red: bool) -> None:
    case = CaseResult("a", CaseStatus.ERROR, error_type="ModuleNotFoundError", missing_module=missing)
    assert judge_red(report(case), modules_under_test=["shop.cart"]).is_red is is_red
    assert judge_red(report(case)).is_red


def test_exit_code_alone_is_enough_for_commands_that_report_nothing_else() -> None:
    assert judge_red(report(cases=None, exit_code=1)).is_red
    assert not judge_red(report(cases=None, exit_code=0)).is_red
    assert judge_green(report(cases=None, exit_code=0)).is_green
    assert judge_green(report(cases=None, exit_code=1)).failing == ("pytest",)
    unseen = judge_green(report(cases=None, exit_code=0), expected=["a"])
    assert not unseen.is_green
    assert unseen.is_green_as_far_as_known


def test_green_needs_every_expected_test_to_have_run() -> None:
    ran = report(passed("t.py::a[1]"), passed("t.py::b"), CaseResult("t.py::c", CaseStatus.SKIPPED))
    assert judge_green(ran, expected=["t.py::a", "t.py::b", "t.py"]).is_green
    verdict = judge_green(ran, expected=["t.py::c", "t.py::gone"])
    assert verdict.missing == ("t.py::c", "t.py::gone")
    assert verdict.words() == "2 not run (t.py::c)"


def test_green_needs_the_commands_own_word_and_some_test() -> None:
    assert "exit code 1: the last words" in str(judge_green(report(passed("a"), exit_code=1)).problem)
    assert judge_green(report()).problem == "no test was collected"
    assert judge_green(report(passed("a"))).words() == "all tests pass"


def test_coverage_of_changed_code_counts_and_tests_do_not() -> None:
    coverage = {
        "a.py": FileCoverage(10, (1, 2)),
        "b.py": FileCoverage(90, ()),
        "tests/test_a.py": FileCoverage(9, (1,)),
    }
    covered = report(passed("a"), coverage=coverage)
    changed = ["a.py", "b.py", "tests/test_a.py", "README.md"]
    verdict = judge_green(covered, changed_files=changed, coverage_target=90)
    assert verdict.shortfalls == {"a.py": 80.0}
    assert verdict.coverage_percent == 98.0
    assert verdict.words() == "a.py is covered 80 % where it is changed"
    assert judge_green(covered, changed_files=changed, coverage_target=80).is_green
    assert judge_green(report(passed("a")), changed_files=["README.md"], coverage_target=80).is_green


def test_what_could_not_be_checked_is_not_green() -> None:
    verdict = judge_green(report(passed("a")), changed_files=["a.py"], coverage_target=80, suite_before=report())
    assert not verdict.is_green
    assert verdict.is_green_as_far_as_known
    assert len(verdict.unverified) == 2
    assert "not verified: coverage" in verdict.words()


def test_project_suite_may_not_get_worse() -> None:
    before = report(passed("a"), passed("b"), passed("deleted"), failed("old"))
    after = report(passed("a"), failed("b"), failed("old"), failed("new"))
    verdict = judge_green(report(passed("x")), suite_before=before, suite_after=after)
    assert verdict.regressions == ("b", "deleted", "new")
    assert not verdict.is_green
    by_code = judge_green(
        report(passed("x")), suite_before=report(cases=None, exit_code=0), suite_after=report(cases=None, exit_code=1)
    )
    assert by_code.regressions == ("pytest",)
    still_bad = report(cases=None, exit_code=1)
    assert judge_green(report(passed("x")), suite_before=still_bad, suite_after=still_bad).is_green


def test_same_failing_set_twice_is_stagnation() -> None:
    first = Round(frozenset("ab"))
    assert find_stagnation([first]) is None
    assert find_stagnation([first, Round(frozenset("ac"))]) is None
    stagnation = find_stagnation([Round(frozenset("abc")), first, first])
    assert stagnation is not None
    assert stagnation.reason == "the same 2 tests fail in rounds 2 and 3"


def test_rising_coverage_is_progress() -> None:
    rising = [Round(frozenset(), 50.0), Round(frozenset(), 60.0)]
    assert find_stagnation(rising) is None
    assert "coverage does not rise" in str(find_stagnation([*rising, Round(frozenset(), 60.0)]))


def test_three_rounds_without_progress_are_stagnation() -> None:
    rounds = [Round(frozenset(names)) for names in ("ab", "abc", "cd", "bc")]
    assert find_stagnation(rounds[:3]) is None
    assert "no progress" in str(find_stagnation(rounds))
    assert best_round(rounds) == 0
    assert best_round([*rounds, Round(frozenset("a"), 10.0), Round(frozenset("b"), 20.0)]) == 5


@settings(deadline=None, max_examples=60)
@given(st.lists(st.frozensets(st.sampled_from("abcd")), max_size=12))
def test_rounds_always_stop_soon_after_the_last_progress(failing: list[frozenset[str]]) -> None:
    rounds: list[Round] = []
    for names in failing:
        rounds.append(Round(names))
        if find_stagnation(rounds):
            break
    best = best_round(rounds) if rounds else 0
    assert len(rounds) - 1 - best <= 3


def test_tests_are_found_by_reading() -> None:
    source = "def test_a(): ...\nasync def test_b(): ...\nclass TestC:\n    def test_d(self): ...\n    x = 1\n"
    assert defined_tests("t.py", source) == ("t.py::test_a", "t.py::test_b", "t.py::TestC::test_d")
    assert defined_tests("t.py", "def (") == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/shop/cart.py", "shop.cart"),
        ("shop/__init__.py", "shop"),
        ("app.py", "app"),
        ("src.py", "src"),
        ("a.md", None),
    ],
)
def test_module_names(path: str, name: str | None) -> None:
    assert module_name(path) == name


def test_one_tested_function_in_an_old_file_passes_and_an_untaken_branch_does_not() -> None:
    old = FileCoverage(
        10, (3, 4, 5), executed_lines=(1, 2, 6, 7, 8, 9, 10), branches=((9, 10),), missing_branches=((9, 1), (3, 4))
    )
    run = report(passed("t.py::a"), exit_code=0, coverage={"a.py": old})
    judged = {
        name: judge_green(run, changed_files=["a.py"], changed_lines={"a.py": lines}, coverage_target=90)
        for name, lines in {"new": {6, 7, 8}, "branch": {8, 9, 10}}.items()
    }
    assert judged["new"].is_green
    assert judged["new"].coverage_percent == 100.0
    assert judged["branch"].shortfalls == {"a.py": 80.0}
    assert judge_green(run, changed_files=["a.py"], coverage_target=90).shortfalls
