"""Which versions an interpreter of a project's own has to have: those that AgentOS itself is installed with."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

from agentos.engine.interpreter import LENT, NEEDED, OLDEST_PYTHON, Interpreter, lent_folders

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def test_the_versions_that_are_asked_for_are_those_that_agentos_itself_needs() -> None:
    assert PROJECT["requires-python"] == f">={OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}"
    for name, (lowest, below) in (NEEDED | LENT).items():
        if name != "langgraph-checkpoint":
            assert f"{name}>={lowest[0]}.{lowest[1]},<{below}" in PROJECT["dependencies"]


def test_what_is_lent_works_with_the_oldest_version_that_is_let_in() -> None:
    wanted = metadata.requires("langgraph-checkpoint-sqlite") or []
    [line] = [line for line in wanted if re.match(r"langgraph-checkpoint\b(?!-)", line)]
    lowest = tuple(map(int, re.findall(r">=(\d+)\.(\d+)", line)[0]))
    assert NEEDED["langgraph-checkpoint"][0] >= lowest


def test_only_the_parts_that_may_be_missing_are_lent() -> None:
    lent = lent_folders()
    assert set(lent) == {"langgraph.checkpoint.sqlite", "langgraph.store.sqlite", "sqlite_vec", "aiosqlite"}
    assert all((Path(folder) / "__init__.py").is_file() for folder in lent.values())


def test_an_environment_counts_as_activated_and_a_plain_interpreter_does_not() -> None:
    path = Path("/p/.venv/bin/python")
    made = Interpreter(path=path, version="3.12.1", langgraph="1.2.3", environment_dir=Path("/p/.venv"))
    assert made.environment({"PATH": "/bin"}) == {"PATH": "/p/.venv/bin:/bin", "VIRTUAL_ENV": "/p/.venv"}
    plain = Interpreter(path=Path("/usr/bin/python3"), version="3.12.1", langgraph="1.2.3")
    assert plain.environment({"PATH": "/bin"}) == {}
    assert str(made) == "/p/.venv/bin/python (Python 3.12.1, LangGraph 1.2.3)"
