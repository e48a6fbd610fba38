"""Attacks as data: one TOML file each, read into what the runner needs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from designs import create

_HERE = Path(__file__).parent
_MOST_ASKED = 12
"""How often a coder is asked at most in one item: two answers in each of five rounds, and some to spare."""
HONEST_DESIGN = {"tally/double.py": "Add", "tests/test_double.py": "Add"}
HONEST_TESTS = {
    "tests/test_double.py": (
        "from tally.double import double\n\n\n"
        "def test_010_double():\n    assert double(4) == 8\n    assert double(-3) == -6\n"
    )
}
HONEST_CODE = {"tally/double.py": "def double(n):\n    return 2 * n\n"}


@dataclass(frozen=True)
class Expected:
    """What must happen."""

    outcome: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    escapes: tuple[str, ...] = ()
    leaves_nothing: str = ""
    strengths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack:
    """One file of `answers/` or `probes/`."""

    name: str
    what: str
    code: Any = field(default_factory=dict)
    tests: Mapping[str, str] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    design: Mapping[str, str] = field(default_factory=dict)
    project: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    expect: Expected = Expected()
    quick: bool = False

    @property
    def needs_own_project(self) -> bool:
        return bool(self.project or self.settings)

    def runs_on(self, strength: str) -> bool:
        return not self.expect.strengths or strength in self.expect.strengths

    def answers_with_tests(self) -> list[str]:
        answer = self.raw.get("tests") or _as_answer(self.tests or HONEST_TESTS)
        return [answer] * _MOST_ASKED

    def answers_with_code(self) -> list[str]:
        answers = list(self.raw.get("code") or [_as_answer(self.code or HONEST_CODE)])
        return answers + [answers[-1]] * (_MOST_ASKED - len(answers))


def _as_answer(files: Mapping[str, str]) -> str:
    return "\n".join(create(path, content) for path, content in files.items())


def load(kind: str) -> list[Attack]:
    """All attacks of a kind, by name. A field that nobody knows is a mistake in the file."""
    return [_read(path) for path in sorted((_HERE / kind).glob("*.toml"))]


def _read(path: Path) -> Attack:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    expect = {name: _as_tuple(value) for name, value in document.pop("expect", {}).items()}
    try:
        return Attack(path.stem, expect=Expected(**expect), **document)
    except TypeError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
