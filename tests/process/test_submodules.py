"""A project with a submodule: the first run says what to set, and with that the tests run."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from designs import Designs
from harness import eventually

pytestmark = pytest.mark.slow


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The repositories in a folder, over git's own protocol."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = ["git", "daemon", "--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={folder}"]
    daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: can_connect(port), "git answers")
        yield f"git://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait()


def can_connect(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def make_library(folder: Path) -> None:
    folder.mkdir()
    (folder / "thing.py").write_text("X = 1\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for arguments in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "The library"]):
        subprocess.run(["git", *arguments], cwd=folder, env=env, check=True)


def test_what_the_first_run_says_about_an_empty_submodule_fills_it(tmp_path: Path) -> None:
    make_library(tmp_path / "library")
    designs = Designs(tmp_path / "machine")
    try:
        with served(tmp_path) as address:
            designs.git("submodule", "--quiet", "add", f"{address}/library", "vendor/library")
            (designs.project / "tests/test_words.py").write_text(
                "import sys\n\nsys.path.insert(0, 'vendor/library')\n\nimport thing\n\n\n"
                "def test_words_are_split():\n    assert thing.X == 1\n"
            )
            designs.git("add", ".")
            designs.git("commit", "--quiet", "-m", "A submodule")
            designs.add(1)

            finished = designs.implement("1")
            assert finished.code != 0
            setting = 'setup = "git submodule update --init"'
            assert "submodules are empty in a clean checkout (vendor/library)" in finished.stdout
            assert setting in finished.stdout

            (designs.project / "agentos.toml").write_text(f'[workstreams]\n{setting}\nsetup_network = "yes"\n')
            finished = designs.implement("1")
            assert finished.code == 0, finished.stdout
            assert designs.outcomes() == {"1": "implemented"}
    finally:
        designs.close()
