"""Real pytest runs and real commands in the sandbox, and what is read from them."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.sandbox.limits import Limits
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
    unwanted = ("hypothesispytest", "anyio", "timeout")
    options = tuple(word for name in unwanted for word in ("-p", f"no:{name}"))
    return Pytest(Sandbox(worktree), Path(sys.executable), options=options)


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


def test_a_project_that_leaves_plugins_out_is_tested(worktree: Path, runner: Pytest) -> None:
    write(worktree, "pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p no:xdist -p no:pytest_cov"\n')
    write(worktree, "tests/test_a.py", "def test_a(): pass\n")
    report = runner.run(["tests/test_a.py"])
    assert report.is_success, report.output


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


def test_code_that_reaches_for_what_runs_it_is_named_by_file_and_line(worktree: Path, runner: Pytest) -> None:
    write(
        worktree,
        "shop.py",
        """
        import importlib
        import sys

        def peek():
            getattr(sys, '_get' + 'frame')(1)
            open(__file__).close()
            importlib.import_module('_py' + 'test.reports').TestReport.from_item_and_call = None
        """,
    )
    write(worktree, "tests/test_a.py", "from shop import peek\n\ndef test_a():\n    assert peek() is None\n")
    found = {(one.path, one.line, one.what) for one in runner.run(["tests/test_a.py"]).reached}
    assert {("shop.py", 6, "sys._getframe"), ("shop.py", 7, "the source of shop.py")} <= found
    assert ("", 0, "_pytest.reports.TestReport.from_item_and_call, which it replaces") in found


LOOKS = (
    ("import traceback; next(traceback.walk_tb(error.__traceback__))", "tb_frame"),
    ("import inspect; inspect.getinnerframes(error.__traceback__)", "tb_frame"),
    ("import traceback; traceback.FrameSummary(TEST, 1, 'x').line", "the source of TEST"),
    ("import dis; list(dis.get_instructions(peek))", "__code__"),
    ("import asyncio; asyncio.run(stack())", "cr_frame"),
    ("import codecs; codecs.open(TEST).close()", "the source of TEST"),
    ("import logging; logging.FileHandler(TEST, mode='r').close()", "the source of TEST"),
    ("import warnings; warnings.formatwarning('', UserWarning, TEST, 1)", "the source of TEST"),
    (
        "from importlib.machinery import SourceFileLoader; SourceFileLoader('x', TEST).get_source('x')",
        "the source of TEST",
    ),
    (
        "import json; json.dumps([[[[[[[[[[[[error]]]]]]]]]]]], indent=1, default=lambda one: open(TEST).read())",
        "the source of TEST",
    ),
    ("open(TEST, 'a').close()", "changing TEST"),
    ("open(Text(TEST)).close()", "the source of TEST"),
    ("down([])", "sys._getframe"),
    ("elsewhere()", "sys._getframe"),
)
"""What code may have Python's library do for it, and what that is named as."""


def looking(code: str, test: str) -> str:
    return f"""
        import importlib, pathlib, sys, tempfile
        from asyncio import current_task
        TEST = "{test}"

        class Text(str):
            def startswith(self, *arguments):
                return True

            def split(self, *arguments):
                return []

        def down(found):
            try:
                down(found)
            finally:
                if not found:
                    found.append(sys._getframe(0))
                    raise ValueError

        def elsewhere():
            folder = tempfile.mkdtemp()
            pathlib.Path(folder, "other.py").write_text("import sys\\ndef look(): return sys._getframe(1)")
            sys.path.append(folder)
            importlib.import_module("other").look()

        async def stack():
            current_task().get_stack()

        def peek():
            try:
                raise ValueError
            except ValueError as error:
                try:
                    {code}
                except ValueError:
                    pass
        """


def test_whoever_has_the_library_look_is_named(worktree: Path, runner: Pytest) -> None:
    """Each in a module of its own, by a test of its own: one process for all of them."""
    named = {}
    for number, (code, what) in enumerate(LOOKS):
        shop, test = f"shop_{number}.py", f"tests/test_{number}.py"
        write(worktree, shop, looking(code, test))
        write(worktree, test, f"from shop_{number} import peek\n\ndef test_a():\n    assert peek() is None\n")
        named[shop] = what.replace("TEST", test)
    report = runner.run()
    assert report.is_success, report.output
    found = {(one.path, one.what) for one in report.reached}
    assert named.items() - found == set()


def test_code_that_patches_what_programs_use_changes_no_report_and_silences_nobody(
    worktree: Path, runner: Pytest
) -> None:
    write(
        worktree,
        "shop.py",
        """
        import __main__, builtins, gc, json, os, sys

        def patch():
            json.JSONEncoder.encode = lambda self, record: '{"outcome": "passed"}'
            os.getpid = lambda: 0
            os._exit = lambda code, end=os._exit: end(0)
            sys._getframe = lambda depth: None
            os.path.abspath = os.path.normpath = str
            for name in ("meant", "asking", "sender"):
                setattr(__main__, name, lambda *arguments: "")
            gc.get_objects()
            open(os.fsencode(__file__)).close()
            builtins.all = any
        """,
    )
    write(worktree, "tests/test_a.py", "from shop import patch\n\ndef test_a():\n    patch()\n    assert 1 == 2\n")
    run = runner.run()
    assert (run.exit_code, run.problem, run.in_words()) == (1, "", "1 failed")
    assert [one.what for one in run.reached] == [
        *("gc.get_objects", "the source of shop.py", "builtins.all, which it replaces"),
    ]


def test_no_descriptor_of_the_tests_leads_to_their_results(worktree: Path, runner: Pytest) -> None:
    test = """
        import os, stat

        def others():
            for number in range(3, 1024):
                try:
                    found = os.fstat(number)
                except OSError:
                    continue
                if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or found.st_size > 1_000_000:
                    yield found.st_ino

        def test_a():
            assert len(set(others())) <= 1, "the pipe that pytest's own output goes to, which it keeps"
    """
    write(worktree, "tests/test_a.py", test)
    assert runner.run(["tests/test_a.py"]).is_success


def test_results_are_told_where_files_may_be_of_the_least_size(worktree: Path, runner: Pytest) -> None:
    write(worktree, "tests/test_a.py", "def test_a():\n    assert True\n")
    least = replace(runner, sandbox=replace(runner.sandbox, limits=Limits(file_mb=1)))
    assert least.run(["tests/test_a.py"]).is_success


def test_what_copies_of_the_process_reach_for_is_told_beside_what_it_says_itself(
    worktree: Path, runner: Pytest
) -> None:
    write(
        worktree,
        "shop.py",
        """
        import multiprocessing, sys

        def peek(number):
            sys._getframe(number)

        def in_copies():
            context = multiprocessing.get_context("fork")
            copies = [context.Process(target=peek, args=(0,)) for _ in range(8)]
            for each in copies:
                each.start()
            for each in copies:
                each.join()
        """,
    )
    write(worktree, "tests/test_a.py", "from shop import in_copies\n\ndef test_a():\n    in_copies()\n    assert 1\n")
    report = runner.run(["tests/test_a.py"])
    assert (report.is_success, report.in_words()) == (True, "1 passed"), report.output
    assert ("shop.py", "sys._getframe") in {(one.path, one.what) for one in report.reached}


def test_code_that_minds_its_own_business_is_not_named(worktree: Path, runner: Pytest) -> None:
    write(
        worktree,
        "shop.py",
        """
        import collections, dataclasses, enum, inspect, json, logging, pathlib, traceback, typing, warnings

        Pair = collections.namedtuple("Pair", "a b")

        @dataclasses.dataclass
        class Price:
            cents: "int" = 0

        class Kind(enum.Enum):
            ONE = 1

        def work(path):
            typing.get_type_hints(Price)
            inspect.signature(work)
            sorted(pathlib.Path("tests").iterdir())
            path.write_text(json.dumps([1]))
            assert json.loads(path.read_text()) == [1]
            with warnings.catch_warnings(record=True):
                warnings.warn("old")
            try:
                raise ValueError
            except ValueError:
                logging.exception("no")
                return traceback.format_exc()
        """,
    )
    test = """
        from shop import work

        def test_a(tmp_path, monkeypatch):
            monkeypatch.setattr("builtins.input", lambda: "")
            assert "ValueError" in work(tmp_path / "x.json")
    """
    write(worktree, "tests/test_a.py", test)
    report = runner.run(["tests/test_a.py"], measure=["shop.py"])
    assert report.is_success, report.output
    assert report.reached == ()


def test_a_file_with_brackets_in_its_name_is_run_and_no_other_one(worktree: Path, runner: Pytest) -> None:
    write(worktree, "tests/test_[x].py", "def test_a():\n    assert True\n")
    write(worktree, "tests/test_y.py", "def test_b():\n    assert False\n")
    write(worktree, "more/test_z.py", "def test_c():\n    assert True\n")
    report = runner.run(["tests/test_[x].py", "more/test_z.py"])
    assert report.is_success, report.output
    assert report.passed == {"tests/test_[x].py::test_a", "more/test_z.py::test_c"}
