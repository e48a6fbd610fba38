"""How the command is installed: hints that work as printed, and the other product of the same name."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from harness import Sandbox

from agentos.distribution import install_command, install_line

PROJECT_DIR = Path(__file__).parents[2]
EXTRAS = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_hints_to_install_extras_work_as_printed(tmp_path: Path) -> None:
    """As a shell reads them; together, since each pip takes longer to start than to look."""
    lines = [install_line(extra) for extra in sorted(EXTRAS.keys() - {"all", "dev", "cluster"})]
    start = lines[0].partition(" install ")[0] + " install"
    assert [line for line in lines if not line.startswith(f"{start} ")] == []

    # All of these are installed where tests run, so that pip asks no index; the cluster's are not.
    together = " ".join([start, *(line.removeprefix(start) for line in lines)])
    done = subprocess.run(["sh", "-c", together], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "already satisfied" in done.stdout
    assert "Collecting" not in done.stdout


def test_a_hint_fits_environments_that_have_no_pip() -> None:
    assert install_command(["a>=1"], python=sys.executable, has_pip=False, has_uv=True) == (
        f"uv pip install --python {shlex.quote(sys.executable)} 'a>=1'"
    )
    by_itself = install_command(["a"], python=sys.executable, has_pip=False, has_uv=False)
    assert by_itself == f"{sys.executable} -m ensurepip && {sys.executable} -m pip install a"


def install_other_product(sandbox: Sandbox, **modules: str) -> None:
    """The metadata of `agentos 0.2.0`, and modules that are in the way of ours."""
    folder = sandbox.root / "elsewhere"
    (folder / "agentos-0.2.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: agentos\nVersion: 0.2.0\n"
    (folder / "agentos-0.2.0.dist-info" / "METADATA").write_text(metadata)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    sandbox.environment["PYTHONPATH"] = str(folder)


@pytest.mark.parametrize("command", ["--version", "runs"])
def test_every_command_says_when_the_other_product_is_installed_too(sandbox: Sandbox, command: str) -> None:
    alone = sandbox.command(command)
    install_other_product(sandbox)
    together = sandbox.command(command)

    assert (alone.code, alone.stderr) == (0, "")
    assert together.code == 0
    assert together.stdout == alone.stdout
    assert together.stderr.startswith("Warning: Another product, agentos 0.2.0, is installed in this environment")


def test_a_command_that_cannot_load_says_that_the_other_product_is_in_the_way(sandbox: Sandbox) -> None:
    install_other_product(sandbox, shtab="raise ImportError('broken')\n")

    done = sandbox.command("completion", "bash")

    assert done.code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("agentos: error: broken. Another product, agentos 0.2.0, is installed")
