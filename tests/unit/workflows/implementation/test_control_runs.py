"""Tests made to fail, run for real, and what is concluded from them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import Sandbox
from agentos.workflows.implementation.control_runs import (
    NotChangeable,
    control_problem,
    hidden_failures,
    made_to_fail,
)
from agentos.workflows.implementation.suite_report import CaseResult, CaseStatus, Ending, SuiteReport
from agentos.workflows.implementation.suite_runner import Pytest

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
    assert float("inf") == float("inf") and 1e300 == 1e300
    assert (1, mock.ANY) == (1, 5)
    assert [mock.ANY, {"a": mock.ANY}] == [1, {"a": 2}]

class Question:
    # As a mapper of objects makes one of a comparison: no truth.
    def __eq__(self, other):
        return Question()

def test_questions():
    kept = [Question() == 3, (Question() == 4, 1)]
    assert len(kept) == 2 and isinstance(Question() == 3, Question)

def test_many():
    assert all(number == number + 0 for number in range(100_000))
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
    assert "4 failed" in said.splitlines()[-1]
    assert "mark1equals everything" not in said


ENDINGS = """
import pytest

def wants_a_value_error(test):
    def run():
        with pytest.raises(ValueError):
            test()
    return run

def test_ends(): assert 2 * 2 == 4

def test_returns(): return

@pytest.mark.parametrize("n", [1])
def test_raises(n): raise KeyError(n)

def test_fails(): pytest.fail("no")

if True:
    def test_given_twice(): return
else:
    def test_given_twice(): return

@wants_a_value_error
def test_is_wanted_to_raise(): raise ValueError

@wants_a_value_error
def test_breaks(): assert 0
"""


def test_a_test_says_how_its_body_ended_and_keeps_its_own_failure(tmp_path: Path) -> None:
    text = made_to_fail(ENDINGS, "mark1")
    assert text is not None
    (tmp_path / "test_a.py").write_text(text)

    run = Pytest(Sandbox(tmp_path, Isolation.NONE), Path(sys.executable)).run()

    assert {each.path for each in run.endings} == {"test_a.py"}
    assert {each.test.partition("::")[2]: each.words.rpartition(" ")[2] for each in run.endings} == {
        **dict.fromkeys(("test_ends", "test_returns", "test_given_twice", "test_is_wanted_to_raise"), "ended"),
        **dict.fromkeys(("test_raises[1]", "test_fails", "test_breaks"), "raised"),
    }
    assert {case.error_type for case in run.cases or ()} == {"AssertionError", "KeyError", "Failed"}


@pytest.mark.parametrize(
    ("path", "words", "is_named"),
    [
        ("t.py", "m TestX::a ended", False),
        ("t.py", "m TestX::a raised", True),
        ("t.py", "m TestX::b ended", True),
        ("code.py", "m TestX::a ended", True),
        ("t.py", "other TestX::a ended", True),
    ],
)
def test_a_test_that_did_not_say_itself_that_it_got_to_its_end_is_named(
    path: str, words: str, is_named: bool
) -> None:
    test = "t.py::TestX::a[1]"
    real = [report(CaseResult(test, CaseStatus.PASSED), CaseResult("t.py::other", CaseStatus.PASSED))]
    control = replace(report(), endings=frozenset({Ending(test, path, words)}))
    assert hidden_failures(real, control, {"t.py::TestX::a"}, "m") == ((test,) if is_named else ())


def test_a_test_that_ended_and_raised_too_is_named() -> None:
    real = [report(CaseResult("t.py::a", CaseStatus.PASSED))]
    endings = frozenset(Ending("t.py::a", "t.py", f"m a {how}") for how in ("ended", "raised"))
    assert hidden_failures(real, replace(report(), endings=endings), {"t.py::a"}, "m") == ("t.py::a",)


def test_a_test_of_which_a_part_fails_in_ours_alone_is_named_and_does_not_count_as_passed() -> None:
    real = [report(CaseResult("t.py::a", CaseStatus.PASSED), CaseResult("t.py::a_b", CaseStatus.PASSED))]
    part = CaseResult("t.py::a (asked=4) #1", CaseStatus.FAILED)
    endings = frozenset(Ending(f"t.py::{name}", "t.py", f"m {name} ended") for name in ("a", "a_b"))
    control = replace(report(*(real[0].cases or ()), part), endings=endings)
    assert hidden_failures(real, control, {"t.py::a", "t.py::a_b"}, "m") == ("t.py::a",)
    assert control.passed_whole == {"t.py::a_b"}


def test_no_value_that_a_test_expects_can_be_read_in_its_file_and_each_is_there_when_it_runs(tmp_path: Path) -> None:
    source = '''"""Doc."""
import pytest

MANY = {"seventeen": 17, b"cents": 2.5, 3j: (True, None, ...), "": b""}

class Kind:
    """Doc."""
    field: "int" = 4711

@pytest.mark.parametrize(("name", "wanted"), [("seventeen", 17), ("\\udcff", 0)])
def test_values(name: "str", wanted) -> "None":
    assert MANY.get(name, 0) == wanted
    assert (MANY[b"cents"], MANY[3j], MANY[""], Kind.field) == (2.5, (True, None, ...), b"", 4711)
    assert MANY[3j][0] is True
    match f"{name!r:>30}".strip():
        case "'seventeen'":
            assert name[:-4] == "seven" and -wanted == -17
    assert (Kind.__doc__, test_values.__annotations__["name"]) == ("Doc.", "str")
'''
    text = made_to_fail(source, "control1")
    assert text is not None
    assert not [each for each in ("17", "4711", "2.5", "cents", "seven") if re.search(rf"\b{each}\b", body(text))]

    (tmp_path / "test_a.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "--tb=no"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert said.count(" - AssertionError: control1\n") == said.count("FAILED test_a.py::test_values[") == 2, said
    assert "test_values[seventeen-17]" in said


def body(text: str) -> str:
    """Without what ours begins with, and what cannot be hidden: patterns, f-strings, annotations."""
    return "".join(line for line in text.partition("MANY =")[2].splitlines(True) if "case" not in line)
