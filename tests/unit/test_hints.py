"""Commands that are suggested to a user come from one place, so that one test can do what each of them says."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentos
from agentos.cli.main import COMMANDS, build_parser
from agentos.hints import Hint, Place, program, remember_project

PACKAGE_DIR = Path(agentos.__file__).parent
NOT_PRINTED = (
    # A table of words that are typed before a command's own, run and not suggested.
    "cli/demo.py",
    # What is printed there is a manual, whose every command is a heading.
    "cli/reference.py",
)
A_COMMAND = re.compile(
    rf"\bagentos (?:{'|'.join(COMMANDS)})\b|\b(?:lld|issue)-workflow [a-z0-9-]"
    r"|\bgit (?:-C|init|branch|switch|merge|worktree|commit|add|push|log|show|diff)\b"
    r"|\bgit (?:fetch|remote|rebase|reset|restore|stash|rm)\b|\bgit checkout \w|\bchmod \d"
)
SPOKEN_OF = {
    # Names of commands in a sentence, with no arguments to get wrong.
    "`agentos review`",
    "`agentos run`",
    "`agentos runs result`",
    "`agentos ws resume`",
    "`git remote add`",
    "`git worktree lock`",
}


def printed_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every string of a module that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, node.value


def test_only_the_line_that_resumes_is_made_of_a_programs_own_name() -> None:
    """Else a command could be printed that nothing above finds."""
    users = {
        str(path.relative_to(PACKAGE_DIR))
        for path in PACKAGE_DIR.rglob("*.py")
        # Where the name is not in the text, it is not in the tree either, which takes far longer to make.
        if "prog" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "prog"
    }
    assert users <= {"cli/resume.py", "cli/parsing.py"}


def test_no_command_is_printed_but_those_that_are_listed() -> None:
    found = []
    for path in sorted(PACKAGE_DIR.rglob("*.py")):
        name = str(path.relative_to(PACKAGE_DIR))
        if name == "hints.py" or name.startswith("demo/") or name in NOT_PRINTED:
            continue
        for line, text in printed_texts(path):
            rest = text
            for words in SPOKEN_OF:
                rest = rest.replace(words, "")
            found += [f"{name}:{line}: {match[0]}" for match in A_COMMAND.finditer(rest)]
    assert found == [], (
        "take these from agentos.hints, and have tests/process/test_printed_commands.py do what they say"
    )


@pytest.mark.parametrize("hint", Hint, ids=lambda hint: hint.name)
def test_our_own_commands_parse(hint: Hint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.hints.program", lambda name: name)
    place = Place(project="some where", prefix="AGENTOS_HOME=a")
    values = dict.fromkeys(re.findall(r"\{(\w+)\}", hint.value), "it's")
    values.pop("project", None)
    values |= {name: " --project 'some where'" for name in ("options",) if name in values}
    values |= {name: "google" for name in ("provider",) if name in values}
    values |= {name: "lld" for name in ("workflow",) if name in values}
    line = hint.line(place=place, **values)
    for command in line.split(" && "):
        words = shlex.split(command.partition(" > ")[0])
        if words[0] == "AGENTOS_HOME=a":
            arguments = ["lld", *words[2:]] if words[1] == "lld-workflow" else words[2:]
            parsed = build_parser({arguments[0]}).parse_args(arguments)
            assert getattr(parsed, "project", "some where") == "some where"
            assert ("some where" in words) == ("{project}" in hint.value or "{options}" in hint.value)


def test_a_program_that_the_shell_finds_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(sys.executable).with_name("agentos")
    monkeypatch.setenv("PATH", str(own.parent))
    assert program("agentos") == "agentos"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert program("agentos") == str(own)
    monkeypatch.chdir(own.parent.parent)
    assert program("agentos") == "bin/agentos"
    other = tmp_path / "agentos"
    other.touch(mode=0o755)
    assert program("agentos") == "bin/agentos", "another program of that name is not ours"


def test_the_project_that_was_given_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.hints.program", lambda name: name)
    monkeypatch.setenv("AGENTOS_HINT_PROJECT", "")
    remember_project("../other one")
    assert Hint.APPROVE.line(label="LLD-1") == "agentos review LLD-1 --approve --project '../other one'"
    remember_project(None)
    assert Hint.APPROVE.line(label="LLD-1") == "agentos review LLD-1 --approve"
