"""The two reports: everything that happened, and nothing that did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentos.documents.verdict import Review, Verdict
from agentos.sandbox.isolation import Isolation
from agentos.workflows.implementation.file_operations import Deviation, is_protected
from agentos.workflows.implementation.judging import Round
from agentos.workflows.implementation.reports import implementation_report
from agentos.workflows.implementation.reports import test_report as report_of_tests
from agentos.workflows.implementation.state import (
    Baseline,
    Green,
    ImplementationState,
    Red,
    Scaffold,
    SuitePlan,
)
from agentos.workflows.implementation.suite_plan import PlannedScenario
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, Reached, SuiteReport

LLD = """# 7 - Feature: Seven

## 2. Proposed Changes

### 2.1 Files Changed

| File | Change Type | Description |
|------|-------------|-------------|
| `./app/one.py` | Modify | x |
| `app/two.py` | Add | x |
| `assets/` | Add | x |

## 12. Definition of Done

- [ ] Coverage of changed files is at least 85 %
"""


def run(*cases: tuple[str, str], **fields: Any) -> SuiteReport:
    known = SuiteReport(
        command="python -m pytest",
        exit_code=0,
        timed_out=False,
        output="",
        seconds=1,
        isolation=Isolation.BWRAP,
        cases=tuple(CaseResult(case_id, CaseStatus(status)) for case_id, status in cases),
    )
    return replace(known, **fields)


def green(*cases: tuple[str, str], **fields: Any) -> Green:
    known = Green(
        is_green=True,
        unverified=(),
        coverage_percent=92.4,
        by_file={"app/one.py": 92.4},
        new_tests=run(*cases),
        suite=run(*cases),
    )
    return replace(known, **fields)


BASELINE = Baseline(
    approval="approved by somebody at noon",
    base="HEAD",
    commit="0123456789abcdef",
    branch="agentos/7",
    folder="",
    coverage_target=85,
    suite=run(("tests/test_old.py::test_old", "passed")),
)
PLAN = SuitePlan(
    (
        PlannedScenario("010", "It counts", ("1",)),
        PlannedScenario("R2", "It <b>adds</b> | up", ("2",), is_added=True),
    ),
    (Review(Verdict.APPROVE, summary="Good."),),
    "google:y",
)


def state(**fields: Any) -> ImplementationState:
    red = run(("tests/test_a.py::test_010", "failed"))
    known = ImplementationState(
        item_id="7",
        title="Seven",
        lld_path="docs/lld/active/LLD-7.md",
        lld_text=LLD,
        depends_on=[],
        branch_prefix="",
        baseline=BASELINE,
        plan=PLAN,
        scaffold=Scaffold(("tests/test_a.py",), 1),
        red=Red(words="1 fails", run=red, passing_already=("a::b",)),
        rounds=[Round(frozenset(), 92.4, commit="c", words="all tests pass")],
        green=green(("tests/test_a.py::test_010", "passed"), ("tests/test_a.py::test_r2[x-1]", "failed")),
        usage={"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.25},
        coder="openai:x",
        refusals=[],
        decisions=[],
        deviations=[],
        outcome="implemented",
        reason="",
    )
    return {**known, **fields}  # type: ignore[typeddict-item]


def implementation(changed: tuple[str, ...] = (), **fields: Any) -> str:
    restored, commits = fields.pop("restored", None), fields.pop("commits", "squash")
    protected = [path for path in changed if is_protected(path)]
    return implementation_report(state(**fields), changed, restored=restored, commits=commits, protected=protected)


def test_files_are_compared_with_the_table_and_a_folder_stands_for_what_is_in_it() -> None:
    text = implementation(("app/one.py", "assets/logo.svg", "app/three.py"))

    assert "| `app/one.py` | Modify | changed |" in text
    assert "| `app/two.py` | Add | **not changed** |" in text
    assert "| `assets/` | Add | changed |" in text
    assert "| `app/three.py` | **not listed** | changed |" in text
    assert "logo.svg" not in text


def test_outcome_approval_models_tokens_and_cost_are_said() -> None:
    text = implementation(outcome="needs_revision", reason="stuck")

    assert "- **Outcome:** needs revision: stuck" in text
    assert "`docs/lld/active/LLD-7.md`, approved by somebody at noon" in text
    assert "coder openai:x, reviewer google:y" in text
    assert "10 in, 3 out; cost $0.2500" in text


def test_decisions_of_the_workflow_and_of_the_coder_are_listed() -> None:
    text = implementation(
        baseline=replace(BASELINE, base="agentos/3", folder="services/api"),
        scaffold=Scaffold((), 2),
        decisions=["Ties go | first"],
        commits="stacked",
    )

    decisions = text.partition("## Decisions")[2].partition("##")[0]
    assert decisions.strip().splitlines() == [
        "- Coverage target 85 %, as the design asks",
        "- Built on `agentos/3`, which is not merged: it depends on it, or both change the same file",
        "- Scenario R2 was added to the design's: It ‹b›adds‹/b› / up",
        "- The tests were written 2 times",
        "- One commit per round",
        "- The coder: Ties go / first",
    ]
    assert "paths are in `services/api`" in text


def test_what_a_model_wrote_cannot_start_a_comment_or_another_line() -> None:
    text = implementation(
        deviations=[Deviation("a.py", "<!-- hidden")], refusals=["line 1: '<script>' is\n# not a tag"]
    )

    assert "- `a.py`: ‹!-- hidden\n" in text
    assert "- line 1: '‹script›' is # not a tag\n" in text


def test_without_a_target_of_the_design_the_projects_own_is_named() -> None:
    assert "the project's own: the design names none" in implementation(lld_text="# 7\n")


def test_a_round_that_was_put_back_is_said_in_both_reports() -> None:
    text = implementation(outcome="needs_revision", restored=0)

    assert "The branch holds round 1, the best one" in text
    assert "- Round 1 was put back as the best one" in text
    assert "- Of round 1, which the branch holds" in report_of_tests(state(), restored=0)


def test_scenarios_have_the_result_of_the_tests_that_carry_their_id() -> None:
    text = report_of_tests(state(), restored=None)

    assert "| 010 | It counts | 1 | passed |" in text
    assert "| R2 | It ‹b›adds‹/b› / up | 2 | **failed** (test_r2[x-1]) |" in text


@pytest.mark.parametrize(
    ("name", "scenario"),
    [("test_req_1_adds", "REQ-1"), ("test_adds_t010", "T010"), ("test_it[req-1]", "req 1"), ("test_1.2_x", "1.2")],
)
def test_an_id_is_found_in_a_name_however_it_is_spelled(name: str, scenario: str) -> None:
    plan = SuitePlan((PlannedScenario(scenario, "s"),))
    cases = (f"t.py::{name}", "passed"), ("t.py::test_other", "failed")

    text = report_of_tests(state(plan=plan, green=green(*cases)), restored=None)

    assert f"| {scenario} | s |  | passed |" in text


def test_a_scenario_without_a_test_of_its_own_says_so() -> None:
    text = report_of_tests(state(green=green(("t.py::test_x", "passed"))), restored=None)

    assert "| 010 | It counts | 1 | passed, by all tests together: none has its id |" in text
    none = report_of_tests(state(green=None, red=Red(), rounds=[]), restored=None)
    assert "| 010 | It counts | 1 | not run |" in none


def test_commands_coverage_isolation_and_what_proves_nothing_are_listed() -> None:
    unverified = green(
        ("t.py::test_010", "passed"), unverified=("the weather",), coverage_percent=None, excluded={"a.py": 2}
    )
    text = report_of_tests(
        state(green=unverified, baseline=replace(BASELINE, suite=run(timed_out=True))), restored=None
    )

    assert "- Isolation of this and every other run: bwrap: code sees only the project" in text
    assert "The project's own suite: did not end in time (`python -m pytest`)" in text
    assert "Passes already, without the code: `a::b`" in text
    assert "Coverage of changed lines and branches: not measured, target 85 %" in text
    assert "- Not verified: the weather" in text
    assert "- `a.py` keeps 2 lines from being measured" in text
    by_exit_code = report_of_tests(
        state(baseline=replace(BASELINE, suite=run(cases=None, exit_code=2))), restored=None
    )
    assert "The project's own suite: exit code 2" in by_exit_code


def test_what_code_reached_for_and_tests_that_noticed_nothing_come_first() -> None:
    told = green(
        ("t.py::test_a", "passed"),
        mutants=("a.py line 1 returns nothing", "a.py line 2 is left out"),
        mutants_noticed=1,
        unmoved=("t.py::test_a",),
        reached=(Reached("a.py", 3, "gc.get_objects"), Reached("", 0, "pytest.Function.runtest, which it replaces")),
    )
    first = implementation(green=told).partition("## Look at this first")[2].partition("**Outcome")[0]
    assert "- `a.py` line 3 reached for `gc.get_objects` while tests ran" in first
    assert "- Code on the branch reached for `pytest.Function.runtest, which it replaces`" in first
    assert "- 1 new test noticed none of 2 mistakes made on purpose (`t.py::test_a`)" in first
