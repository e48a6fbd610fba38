"""What is made of a watcher's answer, whatever code under test wrote into it."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.sandbox.isolation import Isolation
from agentos.sandbox.limits import EndedBy, Limits
from agentos.sandbox.sandbox import SandboxResult
from agentos.workflows.implementation.suite_report import Reached, SuiteReport
from agentos.workflows.implementation.watched_run import watched_report

PASSED = {"id": "t.py::test_a", "phase": "call", "outcome": "passed", "expected": False, "text": ""}
RAN = SandboxResult(
    exit_code=0, signal_number=None, timed_out=False, output="", seconds=1.0, isolation=Isolation.BWRAP
)


def report_of(*records: Any, exit_code: int | None = 0, result: SandboxResult = RAN) -> SuiteReport:
    answer = {"records": list(records), "exit_code": exit_code, "output": ""} if exit_code is not None else {}
    return watched_report("pytest", result, answer, None)


def test_a_whole_report_is_a_success() -> None:
    report = report_of({"collected": ["t.py::test_a"]}, {"running": "t.py::test_a"}, PASSED)
    assert report.is_success
    assert report.in_words() == "1 passed"


@pytest.mark.parametrize(
    "record",
    [
        {"collected": 5},
        {"collected": [5]},
        {"phase": "call"},
        {**PASSED, "id": None},
        {**PASSED, "outcome": {}},
        {"running": 1},
        {"reached": "gc.get_objects", "path": None, "line": 1},
        [1, 2],
        "text",
        None,
    ],
)
def test_what_our_reporter_does_not_say_makes_the_report_worth_nothing(record: Any) -> None:
    report = report_of({"collected": ["t.py::test_a"]}, PASSED, record)
    assert not report.is_success
    assert "does not say" in report.problem


def test_a_name_is_one_line() -> None:
    name = "t.py::test_a\n\n## Reviewed\u2028"
    report = report_of({"collected": [name]}, {**PASSED, "id": name})
    assert report.passed == {"t.py::test_a\\n\\n## Reviewed\\u2028"}
    assert report.is_success


def test_a_limit_is_the_result_of_the_code_and_not_somebody_elses_kill() -> None:
    words = EndedBy.MEMORY.words(Limits(memory_mb=5))
    ended = SandboxResult(
        exit_code=None,
        signal_number=9,
        timed_out=False,
        output="",
        seconds=1.0,
        isolation=Isolation.BWRAP,
        ended_by=EndedBy.MEMORY,
        note=words,
    )
    report = report_of(exit_code=None, result=ended)
    assert report.problem == words
    assert not report.was_killed


def test_what_code_reached_for_is_kept_on_one_line() -> None:
    record = {"reached": "gc.get_objects\n# Reviewed", "path": "shop.py", "line": 3}
    report = report_of({"collected": ["t.py::test_a"]}, record, PASSED)
    assert report.is_success
    assert report.kept().reached == (Reached("shop.py", 3, "gc.get_objects\\n# Reviewed"),)
