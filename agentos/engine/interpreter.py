"""The Python that workers run under when it is not ours: a project's own, looked at and checked before the start.

Nothing is installed or written there. See `backends/forkserver/project_interpreter.py` for how AgentOS gets into it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentos.distribution import install_command
from agentos.errors import UsageError

OLDEST_PYTHON = (3, 11)
NEEDED = {"langgraph": ((1, 2), 2), "langgraph-checkpoint": ((4, 3), 5)}
"""Packages that the environment has to have: from which version on, and below which."""
LENT = {"langgraph-checkpoint-sqlite": ((3, 1), 4)}
"""Those that it gets from ours if it has none; one that it has must fit."""
_LENT_MODULES = ("langgraph.checkpoint.sqlite", "langgraph.store.sqlite", "sqlite_vec", "aiosqlite")
_LOOK_SECONDS = 60.0
# Any Python can run it, also one that is too old for the rest.
_LOOK = """
import json, sys
found = {"version": list(sys.version_info[:3]), "packages": {}, "has_pip": False, "prefix": sys.prefix}
found["is_venv"] = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
try:
    from importlib import metadata, util
    found["has_pip"] = util.find_spec("pip") is not None
    for name in NAMES:
        try:
            found["packages"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
except ImportError:
    pass
sys.stdout.write("\\n" + json.dumps(found) + "\\n")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that workers can run under."""

    path: Path
    """Not resolved: an environment is told by the path of its link."""
    version: str
    langgraph: str
    environment_dir: Path | None = None
    """Of a virtual environment."""

    def __str__(self) -> str:
        return f"{self.path} (Python {self.version}, LangGraph {self.langgraph})"

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What activating it sets: programs that nodes start are those of the project."""
        if self.environment_dir is None:
            return {}
        path = os.pathsep.join(filter(None, [str(self.path.parent), environ.get("PATH", "")]))
        return {"VIRTUAL_ENV": str(self.environment_dir), "PATH": path}


@dataclass(frozen=True, slots=True)
class _Found:
    version: tuple[int, ...]
    packages: Mapping[str, str]
    has_pip: bool
    prefix: str
    is_venv: bool


def check_interpreter(text: str, here: Path) -> Interpreter:
    """Raises UsageError when workers cannot run under it, with what to do."""
    path = (here / Path(text).expanduser()).absolute()
    found = _look(text, path)
    problem = _problem(found, path)
    if problem:
        raise UsageError(f"--python {text}: {problem}")
    return Interpreter(
        path=path,
        version=_words(found.version),
        langgraph=found.packages["langgraph"],
        environment_dir=Path(found.prefix) if found.is_venv else None,
    )


def lent_folders() -> dict[str, str]:
    """Packages of ours that an environment may borrow, by their names: where they are."""
    specs = {name: find_spec(name) for name in _LENT_MODULES}
    return {n: str(Path(spec.origin).parent) for n, spec in specs.items() if spec is not None and spec.origin}


def python_beside(folders: Iterable[Path]) -> Path | None:
    """The interpreter of the first virtual environment in one of these folders that is not the one we run in."""
    for folder in folders:
        for name in (".venv", "venv"):
            found = python_of(folder / name)
            if found is not None and (folder / name).resolve() != Path(sys.prefix).resolve():
                return found
    return None


def python_of(environment_dir: Path) -> Path | None:
    """The interpreter of a virtual environment; None when there is none."""
    path = environment_dir / "bin" / "python"
    return path if (environment_dir / "pyvenv.cfg").is_file() and os.access(path, os.X_OK) else None


def _look(text: str, path: Path) -> _Found:
    if path.is_dir():
        inside = python_of(path)
        raise UsageError(
            f"--python {text}: a folder. Give its interpreter: --python {Path(text) / 'bin' / 'python'}"
            if inside
            else f"--python {text}: a folder without an interpreter in it. Give a path like .venv/bin/python."
        )
    import subprocess  # noqa: PLC0415  Most runs take no other interpreter.

    names = repr([*NEEDED, *LENT])
    try:
        done = subprocess.run(
            [path, "-B", "-c", _LOOK.replace("NAMES", names)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOOK_SECONDS,
            check=False,
        )
        return _Found(**json.loads(done.stdout.splitlines()[-1]))
    except OSError as error:
        raise UsageError(f"--python {text}: {error.strerror}. Give a path like .venv/bin/python.") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"--python {text}: no answer within {_LOOK_SECONDS:.0f} s. Is it a Python?") from None
    except (LookupError, TypeError, ValueError):
        said = (done.stderr.strip() or "nothing").splitlines()[-1][:200]
        raise UsageError(f"--python {text}: it does not answer as a Python does (it said: {said}).") from None


def _problem(found: _Found, path: Path) -> str:
    """Why workers cannot run under it; empty when they can."""
    if tuple(found.version[:2]) < OLDEST_PYTHON:
        return f"Python {_words(found.version)}, and AgentOS needs {_words(OLDEST_PYTHON)} or later."
    for name, (lowest, below) in (NEEDED | LENT).items():
        version = found.packages.get(name)
        if version is None and name in LENT:
            continue
        if version is None or not lowest <= _release(version) < (below,):
            wanted = f"{name}>={_words(lowest)},<{below}"
            has = f"has {name} {version}" if version else f"has no {name}"
            has_uv = shutil.which("uv") is not None
            install = install_command([wanted], python=str(path), has_pip=found.has_pip, has_uv=has_uv)
            return (
                f"it {has}; AgentOS works with {_words(lowest)} or later, below {below}. Install it there: {install}"
            )
    return ""


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
