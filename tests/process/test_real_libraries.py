"""Three libraries as their authors publish them, with their own tests: counts are those of plain pytest.

Their sources come from PyPI by name and version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from designs import APPROVE, Designs, create

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_TOOLS = ("pytest", "coverage", "freezegun", "text-unidecode", "pytest-benchmark", "pytest-codspeed")
_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed|xpassed)")


@dataclass(frozen=True)
class Library:
    name: str
    version: str
    package: str
    """Where its modules are."""
    module: str


LIBRARIES = [
    Library("humanize", "4.17.0", "src/humanize", "humanize"),
    Library("itsdangerous", "2.2.0", "src/itsdangerous", "itsdangerous"),
    Library("python-slugify", "9.1.3", "slugify", "slugify"),
]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with what the tests of all three need."""
    folder = tmp_path_factory.mktemp("interpreter") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *_TOOLS], check=True)
    return python


def unpack(library: Library, project: Path, folder: Path) -> None:
    """The library's sources in place of the project's files."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), f"{library.name}=={library.version}"], check=True)
    for path in project.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    source = next(path for path in folder.iterdir() if path.is_dir())
    shutil.copytree(source, project, dirs_exist_ok=True)


def plain_counts(python: Path, library: Library, project: Path) -> dict[str, int]:
    path = os.pathsep.join(str(project / each) for each in ("src", "."))
    command = [str(python), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=project, env={"PATH": os.environ["PATH"], "PYTHONPATH": path}, capture_output=True, text=True
    )
    return counted(done.stdout.splitlines()[-1])


def counted(words: str) -> dict[str, int]:
    return {kind: int(number) for number, kind in _COUNT.findall(words)}


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_counts_are_those_of_plain_pytest(library: Library, interpreter: Path, tmp_path: Path) -> None:
    designs = Designs(tmp_path / "machine")
    try:
        (tmp_path / "sources").mkdir()
        unpack(library, designs.project, tmp_path / "sources")
        designs.git("add", "--all")
        designs.git("commit", "--quiet", "-m", "The library")
        settings = f'[implementation]\npython = "{interpreter}"\n'
        (designs.project / "agentos.toml").write_text(settings)
        script_one_function(designs, library)
        plain = plain_counts(interpreter, library, designs.project)
        assert plain.get("passed", 0) > 50, plain

        if library.name == "humanize":
            # Its build makes a module that git ignores: a clean checkout lacks it, and no model is asked before.
            finished = designs.implement("1", seconds=600)
            assert finished.code != 0
            assert "humanize._version is missing in a clean checkout" in finished.stdout
            assert 'copy = ["src/humanize/_version.py"]' in finished.stdout
            assert "N1_test_plan" not in finished.stdout
            copying = '[workstreams]\ncopy = ["src/humanize/_version.py", "src/humanize/locale/*/LC_MESSAGES/*.mo"]\n'
            (designs.project / "agentos.toml").write_text(settings + copying)
        finished = designs.implement("1", seconds=600)

        assert finished.code == 0, finished.stdout
        assert designs.outcomes() == {"1": "implemented"}
        before, after = suite_lines(designs.test_report("1"))
        assert counted(before) == plain
        assert counted(after) == {**plain, "passed": plain["passed"] + 1}
    finally:
        designs.close()


def script_one_function(designs: Designs, library: Library) -> None:
    code, test = f"{library.package}/twice.py", "tests/test_twice.py"
    designs.design(1, "twice(n)", [(code, "Add"), (test, "Add")], ["twice(n) is two times n"])
    designs.record(1, "N1_test_plan", APPROVE)
    importing = f"from {library.module}.twice import twice"
    designs.record(
        1, "N2_scaffold_tests", create(test, f"{importing}\n\n\ndef test_010_twice():\n    assert twice(4) == 8")
    )
    designs.record(1, "N4_implement", create(code, "def twice(n):\n    return 2 * n"))


def suite_lines(report: str) -> list[str]:
    """What the report says of the project's own suite, before the code and after it."""
    return [line for line in report.splitlines() if line.startswith("- The project's own suite:")]
