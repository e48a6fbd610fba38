"""Where things live: the one place that knows the folders under AGENTOS_HOME."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path


def home_dir() -> Path:
    """`~/.agentos`, or what AGENTOS_HOME says."""
    configured = os.environ.get("AGENTOS_HOME")
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".agentos"


def project_key(project_dir: Path) -> str:
    """A name for a project directory: readable, and never shared by two directories."""
    resolved = project_dir.resolve()
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", resolved.name).strip("-")[:40] or "project"
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]
    return f"{readable}-{digest}"


def checkpoints_dir(project_dir: Path) -> Path:
    """Where the project's item databases live."""
    return home_dir() / "checkpoints" / project_key(project_dir)


def runs_dir() -> Path:
    """One folder a run, named by its start time."""
    return home_dir() / "logs" / "parallel"


def find_project_dir(start: Path) -> Path:
    """The nearest directory at or above `start` with an `agentos.toml` or a `.git`, else `start` itself."""
    for directory in (start, *start.parents):
        if (directory / "agentos.toml").is_file() or (directory / ".git").exists():
            return directory
    return start
