"""Branches that merge cleanly and do not work together."""

from __future__ import annotations

from pathlib import Path

import pytest
from designs import Designs

from agentos.settings import load_settings
from agentos.workflows.context import Context
from agentos.workflows.implementation.merge_trial import try_together
from agentos.workflows.implementation.stacking import stacks_on

WORDS = "from tally.words import words\n\n\n"


def branch(designs: Designs, name: str, files: dict[str, str]) -> None:
    designs.git("checkout", "--quiet", "-b", name, "main")
    for path, text in files.items():
        (designs.project / path).write_text(text)
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", name)
    designs.git("checkout", "--quiet", "main")


def test_the_first_branch_that_breaks_a_test_is_named_with_its_partner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    designs = Designs(tmp_path)
    monkeypatch.setenv("AGENTOS_HOME", designs.environment["AGENTOS_HOME"])
    try:
        branch(
            designs, "agentos/a", {"tests/test_a.py": f"{WORDS}def test_case():\n    assert words('A') == ['A']\n"}
        )
        branch(designs, "agentos/b", {"tally/other.py": "x = 1\n"})
        branch(designs, "agentos/c", {"tally/words.py": "def words(text):\n    return text.lower().split()\n"})
        context = Context(project_dir=designs.project, settings=load_settings(designs.project))
        base = designs.git("rev-parse", "main")
        before = designs.git("for-each-ref")

        found = try_together(context, base, ["agentos/a", "agentos/b", "agentos/c"])

        assert found["agentos/a"].words() == found["agentos/b"].words() == "tests pass"
        assert found["agentos/c"].words() == "BREAKS tests/test_a.py::test_case together with agentos/a"
        assert designs.git("for-each-ref") == before
    finally:
        designs.close()


def test_what_fails_without_any_branch_is_held_against_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    designs = Designs(tmp_path)
    monkeypatch.setenv("AGENTOS_HOME", designs.environment["AGENTOS_HOME"])
    try:
        (designs.project / "tests/test_old.py").write_text("def test_old():\n    raise AssertionError\n")
        designs.git("add", ".")
        designs.git("commit", "--quiet", "-m", "A test that fails")
        branch(designs, "agentos/a", {"tally/other.py": "x = 1\n"})
        branch(designs, "agentos/b", {"tests/test_b.py": "def test_b():\n    raise AssertionError\n"})
        context = Context(project_dir=designs.project, settings=load_settings(designs.project))

        found = try_together(context, designs.git("rev-parse", "main"), ["agentos/a", "agentos/b"])

        assert found["agentos/a"].words() == "no further test fails"
        assert found["agentos/b"].words().startswith("BREAKS tests/test_b.py::test_b")
    finally:
        designs.close()


@pytest.mark.slow
def test_an_item_starts_from_the_branch_that_changes_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    designs = Designs(tmp_path)
    monkeypatch.setenv("AGENTOS_HOME", designs.environment["AGENTOS_HOME"])
    try:
        designs.add(4, 5)
        finished = designs.implement("4", "5", "--parallel", "2")
        assert finished.code == 0, finished.stdout
        assert designs.git("merge-base", "agentos/4", "agentos/5") == designs.git("rev-parse", "agentos/4")
        assert "agentos/4  merges cleanly, tests pass" in finished.stdout
        assert "agentos/5  merges cleanly, tests pass" in finished.stdout
        settings = load_settings(designs.project)
        assert stacks_on("5", designs.project, settings) == ("4",)
        assert stacks_on("4", designs.project, settings) == ()  # 5 is built on it.
    finally:
        designs.close()
