"""Makes the virtual environment of this clone and shows how far it is: `python3 tools/setup_environment.py .venv`."""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[1]
LINES_SHOWN_ON_FAILURE = 30
SECONDS_BETWEEN_LINES = 5.0


def main(directory: Path) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036  whoever runs this may not know yet
        return _fail(f"AgentOS needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.")
    _say(f"Setting up {directory}: AgentOS with everything optional and its tools. Once; it takes a minute or so.")
    began = time.monotonic()
    venv.create(directory, clear=True, with_pip=True)
    lines, code = _install(directory / "bin" / "python", "--constraint", str(PROJECT_DIR / "constraints.txt"))
    if code != 0:
        # A Python newer than the pinned versions, or an index that no longer has one of them.
        _say("  the versions in constraints.txt cannot all be installed here: taking the newest instead")
        lines, code = _install(directory / "bin" / "python")
    if code != 0:
        return _fail("\n".join([*lines[-LINES_SHOWN_ON_FAILURE:], f"pip exited with {code}: see above."]))
    _say(f"  ready after {time.monotonic() - began:.0f} s")
    return 0


def _install(python: Path, *options: str) -> tuple[list[str], int]:
    """What pip said, and its exit code. A line tells every few seconds what it is at."""
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *options]
    command += ["-e", f"{PROJECT_DIR}[all,dev]"]
    lines: list[str] = []
    packages, told = 0, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in _lines_of(process):
            lines.append(line)
            packages += line.startswith("Collecting ")
            if line.startswith("Installing collected"):
                _say(f"  installing {packages} packages")
            elif line.startswith("Collecting ") and time.monotonic() > told + SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                _say(f"  {packages} package{'' if packages == 1 else 's'} found")
    return lines, process.returncode


def _lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.rstrip("\n")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _fail(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
