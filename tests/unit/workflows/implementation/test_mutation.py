"""Mistakes in changed lines."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.workflows.implementation.mutation import mutants, only_computes, rewritten, with_imports

SOURCE = '''"""Doc."""


def grade(points):
    """Doc."""
    if points >= 50:
        return "pass"
    raise ValueError("too few")
'''


def test_mistakes_are_made_in_changed_lines_only_the_strongest_first() -> None:
    found = mutants("a.py", SOURCE, range(1, 9), 4)
    assert [(each.line, each.what) for each in found] == [
        (7, "returns nothing"),
        (8, "no longer raises"),
        (6, "takes the other branch"),
        (6, "has another operator"),
    ]
    assert "return None" in found[0].source
    assert "points < 50" in found[3].source
    assert {each.line for each in mutants("a.py", SOURCE, {7}, 9)} == {7}
    assert mutants("a.py", SOURCE, {1, 2, 5}, 9) == []


@pytest.mark.parametrize("source", ["def f(:", "", "x = None\n", "\0"])
def test_what_cannot_be_broken_gives_no_mutant(source: str) -> None:
    assert mutants("a.py", source, range(100), 4) == []


def test_code_in_other_words_does_the_same_and_what_cannot_be_read_is_none() -> None:
    text = rewritten("def f(n):\n    # twice\n    return  2*n\n")
    assert text == "def f(n):\n    0 < 1\n    return 2 * n\n0 < 1\n"
    assert rewritten("def f(:") is None
    assert rewritten("x = 0x" + "f" * 9000) is None
    assert mutants("a.py", "x = " + "-" * 9000 + "1", {1}, 4) == []


def test_the_same_code_in_other_words_does_the_same_and_is_compiled_to_something_else() -> None:
    source = 'def f(n):\n    """Twice."""\n    return 2 * n\n'
    text = rewritten(source)
    assert text is not None
    spaces: list[dict[str, Any]] = [{}, {}]
    for each, space in zip((source, text), spaces, strict=True):
        exec(each, space)
    one, other = (space["f"] for space in spaces)
    assert one(4) == other(4) == 8
    assert one.__doc__ == other.__doc__
    assert one.__code__.co_code != other.__code__.co_code
    assert one.__code__.co_consts != other.__code__.co_consts


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "from random import random",
        "import pytest\nos = pytest.importorskip('os')",
        "open('a.py')",
        "peek = open\nassert peek('a.py')",
        "assert [*map(open, ['a.py'])]",
        "import json\nlook = json.codecs.open",
        "from statistics import random",
        "import unittest.case\nassert unittest.case.time.time() > 5",
        "from operator import attrgetter as get",
        "g = (n for n in ())\nlook = g.gi_frame",
        "f.__code__",
        "def test_a(tmp_path): pass",
        "def f(:",
    ],
)
def test_what_can_look_at_files_and_at_chance_is_known(text: str) -> None:
    assert not only_computes(text, {"tally", "os", "random"})


def test_tests_and_code_that_only_compute_are_known() -> None:
    text = (
        "import math\nimport pytest\nfrom tally.double import double\n\n\ndef test_a():\n    assert double(4) == 8\n"
    )
    assert only_computes(text, {"tally"})
    assert not only_computes(text, {"other"})


def test_what_a_file_imports_gives_it_means_however_far_away() -> None:
    texts = {
        "tests/test_a.py": "from helper import f\nimport tally.double",
        "tests/helper.py": "from tally import files",
        "src/tally/__init__.py": "",
        "src/tally/double.py": "from . import near\nfrom .deep.far import x",
        "src/tally/near.py": "",
        "src/tally/files.py": "import os",
        "src/tally/deep/far.py": "def (",
        "src/tally/other.py": "import os",
    }
    assert with_imports(["tests/test_a.py"], texts, texts.__getitem__) == texts.keys() - {"src/tally/other.py"}
