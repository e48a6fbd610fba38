"""What new lines use that code under test has no use for."""

from __future__ import annotations

import pytest

from agentos.workflows.implementation.suspicious_code import find_tricks, in_words, modules_among_tests


def found(source: str, *, is_test: bool = False) -> str:
    return in_words(find_tricks(source, range(1, 100), is_test=is_test))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import gc", "gc (line 1)"),
        ("import _pytest.runner as r", "_pytest.runner (line 1)"),
        ("from unittest import mock", "unittest (line 1)"),
        ("from os import _exit", "os._exit (line 1)"),
        ("import sys\nx = sys._getframe(1)", "sys._getframe (line 2)"),
        ("import logging\nx = 'a' in logging.sys.modules", "sys.modules (line 2)"),
        ("exec('x')", "exec() (line 1)"),
        ("import os\nx = os.environ.get('PYTEST_CURRENT_TEST')", "'PYTEST_CURRENT_TEST' (line 2)"),
        ("import os\nx = 2 if os.environ.get('CI') else 1", "'CI' (line 2)"),
        ("x = open('/proc/self/maps')", "'/proc/self/maps' (line 1)"),
        ("x = open('tests/test_a.py')", "'tests/test_a.py' (line 1)"),
        ("x = open(__file__).read()", "its own source (line 1)"),
        ("from pathlib import Path\nx = Path(__file__).read_text()", "its own source (line 2)"),
        ("globals()['test_x'] = 1", "names made while it runs (line 1)"),
        (
            "class A:\n    def __eq__(self, other):\n        return True",
            "__eq__ that looks at nothing of its own (line 2)",
        ),
        ("x = getattr(sys, '_get' + 'frame')", "'_getframe', put together (line 1)"),
        ("x = import_module(f\"{'unit'}{'test'}\")", "'unittest', put together (line 1)"),
        ("x = ''.join(['py', 'test'])", "'pytest', put together (line 1)"),
        ("from tests.helpers import same", "tests.helpers (line 1)"),
        ("__builtins__['all'] = any", "__builtins__ (line 1)"),
        ("def f(:", "source that cannot be read (SyntaxError) (line 1)"),
    ],
)
def test_a_trick_is_named_with_its_line(source: str, words: str) -> None:
    assert found(source) == words


@pytest.mark.parametrize(
    "source",
    [
        '"""Like pytest, see tests/ and /proc/."""\n\n\ndef f():\n    """agentos"""\n    return 1\n',
        "import os\nimport sys\nx = sys.argv, os.environ['HOME']\n",
        "from pathlib import Path\nDATA = (Path(__file__).parent / 'data.json').read_text()\n",
        "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
        "x = 'a' + 'b' + name + f'{name}_test' + f'test' + ''.join(['a', name])\n",
        "import re\nx = re.compile('latest_one').search('a')\nmodel.modules()\n",
    ],
)
def test_ordinary_code_is_not_mentioned(source: str) -> None:
    assert found(source) == ""


def test_tests_may_use_what_is_theirs_and_only_new_lines_count() -> None:
    source = "import pytest\nfrom unittest import mock\nimport gc\nX = 'tests/data'\n"
    assert found(source, is_test=True) == "gc (line 3)"
    assert find_tricks(source, {1, 2}, is_test=True) == ()


def test_many_tricks_are_counted() -> None:
    assert found("import gc\n" * 8).endswith("and 2 more")


def test_code_that_imports_what_is_only_among_the_tests_is_mentioned() -> None:
    tests = ("tests/test_a.py", "tests/doubling.py", "tests/deep/__init__.py", "tests/deep/x.py", "spec/__init__.py")
    names = modules_among_tests((*tests, "tests/words.py"), ("tally/words.py", "tally/__init__.py"))
    assert names == {"test_a", "doubling", "deep"}
    source = "import os\nfrom doubling import two\nfrom .doubling import three\n"
    told = find_tricks(source, {1, 2, 3}, is_test=False, among_tests=names)
    assert [(trick.line, trick.what) for trick in told] == [(2, "doubling")]
    assert find_tricks(source, {1, 2, 3}, is_test=True, among_tests=names) == ()
