"""What the project's own files promise each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT_DIR = Path(__file__).parents[2]


def commands_of(target: str) -> list[str]:
    text = (PROJECT_DIR / "Makefile").read_text()
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert recipe is not None
    return [line.strip() for line in recipe[1].splitlines()]


def test_pre_commit_runs_what_make_check_runs() -> None:
    hooks = re.findall(r"^ +entry: (.+)$", (PROJECT_DIR / ".pre-commit-config.yaml").read_text(), re.MULTILINE)

    assert hooks == [command.replace("$(BIN)", ".venv/bin") for command in commands_of("check")]


@pytest.mark.parametrize("path", ["README.md", "docs/quickstart.md", "docs/howto/keys.md"])
def test_no_documented_line_installs_the_other_product_of_our_name(path: str) -> None:
    installs = re.findall(r"(?:pip|pipx|uv tool) install [^\n`#]+", (PROJECT_DIR / path).read_text())
    extras = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert not [line for line in installs if re.search(r"\bagentos\b", line)]
    for line in installs:
        assert set(re.findall(r"\.\[([a-z,]+)\]", line)) <= set(extras), line


@pytest.mark.parametrize(("value", "code"), [(1, 0), (2, 1)])
def test_a_benchmark_that_misses_its_bar_exits_with_1(value: int, code: int) -> None:
    program = (
        "import sys, benchmarks.__main__, benchmarks.startup as one\n"
        "from benchmarks.harness import verdict\n"
        f"one.main = lambda: verdict('it', {value}, bar=1)\n"
        "sys.exit(benchmarks.__main__.main(['startup']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_DIR, capture_output=True, text=True, check=False
    )

    assert done.returncode == code, done.stderr
    assert ("MISSED: it" in done.stderr) is bool(code)
