"""Real pytest runs and real commands in the sandbox, and what is read from them."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.sandbox.sandbox import Sandbox
from agentos.workflows.implementation.judging import defined_tests, judge_green, judge_red
from agentos.workflows.implementation.suite_report import CaseStatus, FileCoverage, JunitError, parse_junit
from agentos.workflows.implementation.suite_runner import Pytest, find_python, read_untrusted, run_command


@pytest.fixture
def worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "worktree"
    (path / "tests").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "agentos-home"))
    return path


@pytest.fixture
def runner(worktree: Path) -> Pytest:
    return Pytest(Sandbox(worktree), Path(sys.executable), options=("-p", "no:hypothesispytest", "-p", "no:anyio"))


def write(worktree: Path, name: str, source: str) -> None:
    path = worktree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))


TEST_SHOP = """
    import pytest
    from shop.cart import total

    @pytest.mark.parametrize("prices", [[], [1, 2]])
    def test_total(prices):
        assert total(prices) == sum(prices)

    class TestErrors:
        def test_refuses_negative(self):
            with pytest.raises(ValueError):
                total([-1])
"""


def test_red_then_green_with_coverage_of_the_changed_file(worktree: Path, runner: Pytest) -> None:
    write(worktree, "tests/test_shop.py", TEST_SHOP)
    write(worktree, "shop/__init__.py", "")
    red = runner.run(["tests/test_shop.py"])
    assert [case.id for case in red.cases or () if case.is_collection_error] == ["tests/test_shop.py"]
    assert red.cases is not None
    assert red.cases[0].missing_module == "shop.cart"
    assert judge_red(red, modules_under_test=["shop.cart"]).is_red

    write(worktree, "shop/cart.py", "def total(prices):\n    return sum(prices)\n\n\ndef unused():\n    return 1\n")
    half = runner.run(["tests/test_shop.py"], measure=["shop/cart.py", "shop/__init__.py", "README.md"])
    assert half.exit_code == 1
    assert len(half.cases or ()) == 3
    assert half.failing == {"tests/test_shop.py::TestErrors::test_refuses_negative"}
    assert half.passed == {"tests/test_shop.py::test_total[prices0]", "tests/test_shop.py::test_total[prices1]"}
    assert half.coverage == {"shop/cart.py": FileCoverage(4, (6,)), "shop/__init__.py": FileCoverage(0, ())}

    code = (
        "def total(prices):\n    if min(prices, default=0) < 0:\n        raise ValueError\n    return sum(prices)\n"
        "\n\ndef hidden():  # pragma: no cover\n    return 1\n"
    )
    write(worktree, "shop/cart.py", code)
    green = runner.run(["tests/test_shop.py"], measure=["shop/cart.py"])
    verdict = judge_green(
        green,
        expected=defined_tests("tests/test_shop.py", (worktree / "tests/test_shop.py").read_text()),
        changed_files=["shop/cart.py", "tests/test_shop.py"],
        coverage_target=95,
    )
    assert verdict.is_green, (verdict, green.output)
    assert verdict.coverage_percent == 100.0
    assert green.coverage is not None
    assert green.coverage["shop/cart.py"].excluded == 2
    assert not list(worktree.rglob("__pycache__"))
    assert {path.name for path in worktree.iterdir()} == {"tests", "shop"}


def test_each_kind_of_failure_is_told_apart(worktree: Path, runner: Pytest) -> None:
    write(
        worktree, "app.py", 'def broken():\n    raise KeyError("x")\n\n\ndef todo():\n    raise NotImplementedError\n'
    )
    source = """
        import pytest
        import app

        def test_assertion(): assert 1 == 2
        def test_attribute(): app.absent()
        def test_not_implemented(): app.todo()
        def test_raised_in_app(): app.broken()
        def test_did_not_raise():
            with pytest.raises(ValueError):
                pass
        def test_own_name_error(): undefined_name
        def test_unknown_fixture(no_such_fixture): pass
        def test_foreign_import(): import no_such_package
        def test_missing_name(): from app import absent
        @pytest.mark.skip
        def test_skipped(): pass
        def test_passes(): pass
    """
    write(worktree, "tests/test_kinds.py", source)
    write(worktree, "tests/test_syntax.py", "def test_x(:\n")
    report = runner.run()
    verdict = judge_red(report, modules_under_test=["app"])
    prefix = "tests/test_kinds.py::test_"
    assert {case_id.removeprefix(prefix) for case_id in verdict.failing_rightly} == {
        "assertion",
        "attribute",
        "not_implemented",
        "raised_in_app",
        "did_not_raise",
        "missing_name",
    }
    wrong = {failure.id.removeprefix(prefix): failure.why for failure in verdict.wrong}
    assert wrong.keys() == {"own_name_error", "unknown_fixture", "foreign_import", "skipped", "tests/test_syntax.py"}
    assert "raised by the test itself" in wrong["own_name_error"]
    assert "no_such_fixture" in wrong["unknown_fixture"]
    assert "no_such_package" in wrong["foreign_import"]
    assert "SyntaxError" in wrong["tests/test_syntax.py"]
    assert "test_syntax.py" in wrong["tests/test_syntax.py"]
    assert verdict.passing_already == (f"{prefix}passes",)
    assert not verdict.is_red


def test_projects_own_options_do_not_cut_the_result_short(worktree: Path, runner: Pytest) -> None:
    write(worktree, "pytest.ini", "[pytest]\naddopts = -x --cov=. --cov-fail-under=100 -n 2 --tb=no\n")
    write(worktree, "tests/test_two.py", "def test_a(): assert 0\ndef test_b(): assert 0\n")
    report = runner.run()
    assert len(report.failing) == 2, report.output
    assert report.cases is not None
    assert {case.error_type for case in report.cases} == {"AssertionError"}


def test_worktree_code_is_tested_and_not_an_install_elsewhere(worktree: Path, runner: Pytest, tmp_path: Path) -> None:
    write(worktree, "src/pkg/__init__.py", "WHERE = 'worktree'\n")
    write(worktree, "tests/test_where.py", "import pkg\ndef test_where(): assert pkg.WHERE == 'worktree'\n")
    assert runner.run().is_success


def test_hanging_and_crashing_tests_are_reported(worktree: Path, runner: Pytest) -> None:
    write(worktree, "tests/test_hang.py", "import time\ndef test_hang(): time.sleep(600)\n")
    hanging = runner.run(["tests/test_hang.py"], timeout_seconds=3)
    assert hanging.timed_out
    assert "did not finish" in str(judge_red(hanging).problem)
    write(worktree, "tests/test_crash.py", "import os\ndef test_crash(): os.abort()\n")
    crashed = runner.run(["tests/test_crash.py"])
    assert crashed.exit_code is None
    assert "crashed" in str(judge_green(crashed).problem)


def test_forged_report_does_not_make_green(worktree: Path, runner: Pytest) -> None:
    source = """
        import atexit, os, sys
        def test_x():
            path = next(a.split("=")[1] for a in sys.argv if a.startswith("--junitxml"))
            def forge():
                open(path, "w").write('<testsuite><testcase classname="t" name="x"/></testsuite>')
            atexit.register(forge)
            assert 0
    """
    write(worktree, "tests/test_forge.py", source)
    report = runner.run()
    assert not report.is_success
    assert not judge_green(report).is_green


def test_interpreter_without_pytest_or_without_life_is_a_usage_error(worktree: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare" / "bin" / "python"
    bare.parent.mkdir(parents=True)
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(UsageError, match="has no pytest"):
        Pytest(Sandbox(worktree), bare).run()
    bare.write_text("#!/bin/sh\necho broken\nexit 1\n")
    with pytest.raises(UsageError, match="does not run: broken"):
        Pytest(Sandbox(worktree), bare).run()


def test_python_is_the_projects_own(tmp_path: Path) -> None:
    assert find_python(tmp_path) == Path(sys.executable)
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert find_python(tmp_path) == own
    assert find_python(tmp_path, configured=".venv/bin/python") == own
    with pytest.raises(UsageError, match="not a Python interpreter"):
        find_python(tmp_path, configured="no-such-python")


def test_command_is_judged_by_exit_code(worktree: Path) -> None:
    sandbox = Sandbox(worktree)
    failing = run_command(sandbox, "echo two failing; exit 1")
    assert (failing.cases, failing.failing) == (None, {"echo two failing; exit 1"})
    assert judge_red(failing).is_red
    assert run_command(sandbox, "true").is_success
    assert "was not found" in str(judge_red(run_command(sandbox, "no-such-tool test")).problem)


def test_command_with_junit_files_is_judged_by_test_and_old_files_do_not_count(worktree: Path) -> None:
    sandbox = Sandbox(worktree)
    write(worktree, "build/old.xml", '<testsuite><testcase name="old"/></testsuite>')
    line = (
        """echo '<testsuite><testcase classname="Cart" name="adds"><failure message="no"/></testcase></testsuite>'"""
    )
    report = run_command(sandbox, f"{line} > build/new.xml; exit 1", junit_glob="build/*.xml")
    assert report.failing == {"Cart::adds"}
    told = run_command(sandbox, f"{line} > $AGENTOS_JUNIT_XML; exit 1")
    assert told.failing == {"Cart::adds"}
    broken = run_command(sandbox, "echo '<nonsense' > $AGENTOS_JUNIT_XML")
    assert broken.cases is None
    with pytest.raises(UsageError, match="inside the project"):
        run_command(sandbox, "true", junit_glob="../*.xml")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "aa">]><testsuite>&a;</testsuite>', "document type"),
        (b"<html/>", "starts with <html>"),
        (b"<testsuite>", "not well-formed"),
        (b"x" * (32 * 1024 * 1024 + 1), "at most"),
    ],
)
def test_hostile_or_broken_junit_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(JunitError, match=words):
        parse_junit(data)


def test_junit_of_other_tools_is_read() -> None:
    data = b"""<testsuites><testsuite><testcase classname="a.B" name="c"/>
        <testcase name="d"><error type="java.lang.IllegalStateException">at x</error></testcase>
        <testcase name="e"><skipped/></testcase><testcase name="e"><failure/></testcase>
        <testcase file="t/test_x.py" classname="elsewhere" name="f"/></testsuite></testsuites>"""
    cases = {case.id: case for case in parse_junit(data)}
    assert {case_id: case.status for case_id, case in cases.items()} == {
        "a.B::c": CaseStatus.PASSED,
        "d": CaseStatus.ERROR,
        "e": CaseStatus.FAILED,
        "t/test_x.py::elsewhere::f": CaseStatus.PASSED,
    }
    assert cases["d"].error_type == "IllegalStateException"


def test_only_plain_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x" * 10)
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")
    assert read_untrusted(tmp_path / "plain") == b"x" * 10
    assert read_untrusted(tmp_path / "plain", limit_bytes=9) is None
    assert [read_untrusted(tmp_path / name) for name in ("link", "pipe", "absent", ".")] == [None] * 4


def test_parts_of_a_test_count_as_pytest_counts_them(worktree: Path, runner: Pytest) -> None:
    source = """
        import unittest

        class TestParts(unittest.TestCase):
            def test_some(self):
                for n in range(4):
                    with self.subTest(n=n):
                        if n == 2:
                            self.skipTest("not this one")

            def test_one_fails(self):
                for n in range(3):
                    with self.subTest("part"):
                        self.assertNotEqual(n, 1)
    """
    write(worktree, "tests/test_parts.py", source)
    report = runner.run()
    said = report.output.splitlines()[-1]
    assert report.in_words() in said
    assert "tests/test_parts.py::TestParts::test_some" in report.passed
    assert report.failing
    assert not report.problem
