"""Tries the wheel in a folder as its users would: all files in it, an empty environment and home, `agentos demo`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[1]


def main(wheel_dir: Path) -> int:
    (wheel,) = wheel_dir.resolve().glob("*.whl")
    if missing := missing_from(wheel):
        sys.stderr.write(f"{wheel.name} lacks {', '.join(missing)}: name them in [tool.setuptools.package-data]\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="agentos-wheel-") as name:
        directory = Path(name)
        sys.stdout.write(f"Trying {wheel.name} in an empty environment\n")
        sys.stdout.flush()
        venv.create(directory / "environment", with_pip=True)
        programs = directory / "environment" / "bin"
        environment = os.environ | {"HOME": name, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        for command in (
            ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)],
            ["agentos", "--version"],
            ["agentos", "demo"],
        ):
            done = subprocess.run([str(programs / command[0]), *command[1:]], cwd=name, env=environment, check=False)
            if done.returncode != 0:
                sys.stderr.write(f"{' '.join(command)} exited with {done.returncode}\n")
                return 1
    return 0


def missing_from(wheel: Path) -> list[str]:
    """Files of the package, as git has them, that the wheel was made without."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "agentos"], cwd=PROJECT_DIR, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(wheel) as archive:
        return sorted(set(filter(None, listed.stdout.split("\0"))) - set(archive.namelist()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
