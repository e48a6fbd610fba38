"""Tests made to fail, run for real, and what is concluded from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentos.sandbox.isolation import Isolation
from agentos.workflows.implementation.control import NotChangeable, control_problem, made_to_fail
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, SuiteReport

SOURCE = '''"""Doc."""
from __future__ import annotations
import unittest, pytest

class Everything:
    def __eq__(self, other): return True

def double(n): return 2 * n

@pytest.mark.parametrize("n", [1, 2])
def test_honest(n):
    """Doc."""
    assert double(n) == 2 * n
    assert [double(n)] == [2 * n] and {"a": n} == {"a": n}

def test_returns_early():
    return

def test_equal(value=Everything()):
    assert value == 3

class TestOld(unittest.TestCase):
    def test_old(self):
        self.assertEqual(Everything(), "x")
'''


def report(*cases: CaseResult) -> SuiteReport:
    return SuiteReport(
        command="x", exit_code=1, timed_out=False, output="", seconds=1.0, isolation=Isolation.NONE, cases=cases
    )


def test_every_test_fails_under_its_own_name_and_values_equal_to_everything_are_found(tmp_path: Path) -> None:
    text = made_to_fail(SOURCE, "mark1")
    assert text is not None
    (tmp_path / "test_a.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:langsmith_plugin",
        "test_a.py",
    ]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    lines = {
        line.split(" - ")[0].rpartition("::")[2]: line for line in said.splitlines() if line.startswith("FAILED")
    }
    assert set(lines) == {"test_honest[1]", "test_honest[2]", "test_returns_early", "test_equal", "test_old"}
    assert "passed" not in said.splitlines()[-1]
    assert "mark1equals everything" in lines["test_equal"]
    assert "mark1equals everything" in lines["test_old"]
    assert "equals everything" not in lines["test_honest[1]"]


@pytest.mark.parametrize(
    "source",
    ["def test_x(:", "def test_x():\n    assert x == 0x" + "f" * 9000, "def test_x():\n    " + "-" * 9000 + "1"],
)
def test_a_file_that_cannot_be_changed_is_not_taken_for_one_without_tests(source: str) -> None:
    with pytest.raises(NotChangeable):
        made_to_fail(source, "m")


@pytest.mark.parametrize("source", ["x = 1\n", "def helper():\n    assert 1\n"])
def test_a_file_without_tests_is_left_as_it_is(source: str) -> None:
    assert made_to_fail(source, "m") is None


def test_a_test_that_passes_although_made_to_fail_speaks_against_the_branch() -> None:
    real = [report(CaseResult("t.py::a[1]", CaseStatus.PASSED), CaseResult("t.py::b", CaseStatus.SKIPPED))]
    failed = CaseResult("t.py::a[1]", CaseStatus.FAILED, message="AssertionError: m")
    assert control_problem(real, report(failed), {"t.py::a", "t.py::b"}, "m") is None
    passed = report(CaseResult("t.py::a[1]", CaseStatus.PASSED))
    assert "changes how tests are judged" in str(control_problem(real, passed, {"t.py::a"}, "m"))
    assert "is gone" in str(control_problem(real, report(), {"t.py::a"}, "m"))
    equal = CaseResult("t.py::a[1]", CaseStatus.FAILED, message="AssertionError: mequals everything[3]")
    assert "equals everything" in str(control_problem(real, report(equal), {"t.py::a"}, "m"))
    assert control_problem(real, report(), {"t.py::other"}, "m") is None


HONEST = """
import unittest
from unittest import mock

class TestHonest(unittest.TestCase):
    def test_orders(self):
        self.assertCountEqual([2, 1], [1, 2])
        self.assertCountEqual([1, 2], [2, 1])
        self.assertNotEqual(3, 4)

def test_either():
    x = 2
    assert x == 1 or x == 2
    assert x in (1, 2, 3) and 8 == 2 * 4 and 1 < x <= 2
    assert mock.ANY != 3 or float("inf") == float("inf")
    assert (1, mock.ANY) == (1, 5)
"""


def test_honest_comparisons_are_no_lies(tmp_path: Path) -> None:
    text = made_to_fail(HONEST, "mark1")
    assert text is not None
    (tmp_path / "test_a.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:langsmith_plugin",
        "test_a.py",
    ]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "2 failed" in said.splitlines()[-1]
    assert "mark1equals everything" not in said
