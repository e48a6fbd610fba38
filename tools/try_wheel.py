"""Tries the wheel in a folder as its users would: an empty environment, an empty home, `agentos demo`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def main(wheel_dir: Path) -> int:
    (wheel,) = wheel_dir.resolve().glob("*.whl")
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


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
