"""Where things live: the one place that knows the folders under AGENTOS_HOME."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from agentos.environment import environment


def home_dir() -> Path:
    """`~/.agentos`, or what AGENTOS_HOME says."""
    configured = environment().get("AGENTOS_HOME")
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".agentos"


def own_settings_path() -> Path:
    """What the user sets for all projects, and no project can."""
    return home_dir() / "agentos.toml"


def project_key(project_dir: Path) -> str:
    """A name for a project directory: readable, and never shared by two directories."""
    resolved = project_dir.resolve()
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", resolved.name).strip("-")[:40] or "project"
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]
    return f"{readable}-{digest}"


def checkpoints_dir(project_dir: Path) -> Path:
    """Where the project's item databases live."""
    return home_dir() / "checkpoints" / project_key(project_dir)


def done_notes_dir(project_dir: Path, workflow: str) -> Path:
    """One small file per item that an unfinished batch has done already."""
    return home_dir() / "batches" / project_key(project_dir) / workflow


def written_dir(project_dir: Path) -> Path:
    """One small file per document that an item has written: whose it is."""
    return home_dir() / "documents" / project_key(project_dir)


def store_path(project_dir: Path, workflow: str) -> Path:
    """What a graph without a store of its own keeps beyond one item and one run."""
    return home_dir() / "stores" / project_key(project_dir) / f"{workflow}.db"


def runs_dir() -> Path:
    """One folder per run, named by its start time."""
    return home_dir() / "logs" / "parallel"


def results_lock_path() -> Path:
    """Which files of users runs write their results to at this moment."""
    return home_dir() / "results.lock"


def lineage_dir(project_dir: Path, label: str) -> Path:
    """Every draft, verdict and prompt of one item, unless the project keeps them itself."""
    return home_dir() / "lineage" / project_key(project_dir) / label


def implemented_path(project_dir: Path, item_id: str) -> Path:
    """What is known of the branch an item became."""
    return home_dir() / "implemented" / project_key(project_dir) / f"{item_id}.json"


def attempted_path(project_dir: Path, item_id: str) -> Path:
    """What is known of the branch that an item's code did not get green on."""
    return home_dir() / "implemented" / project_key(project_dir) / f"{item_id}.attempt.json"


def worktrees_dir(project_dir: Path) -> Path:
    """One git worktree per workstream or implemented item."""
    return home_dir() / "worktrees" / project_key(project_dir)


def workstreams_dir(project_dir: Path) -> Path:
    """The registry of the project's workstreams, and its history."""
    return home_dir() / "workstreams" / project_key(project_dir)


def reservations_path() -> Path:
    """Ports and names that workstreams of all projects hold."""
    return home_dir() / "workstreams" / "leases.json"


def repository_lock_path(common_dir: Path, what: str = "") -> Path:
    """Held while git changes a repository's worktrees, or one branch of it."""
    name = f"{project_key(common_dir)}-{what}" if what else project_key(common_dir)
    return home_dir() / "workstreams" / "locks" / f"{name}.lock"


def credentials_path() -> Path:
    return home_dir() / "credentials.toml"


def key_salt_path() -> Path:
    return home_dir() / "keys" / "salt"


def key_limits_path() -> Path:
    return home_dir() / "keys" / "limits.json"


def key_pool_dir() -> Path:
    """Where the owner of the home's pool is found, and who else uses it."""
    return home_dir() / "keys" / "pool"


def key_sends_path() -> Path:
    return home_dir() / "keys" / "sends.log"


def spending_dir() -> Path:
    """What the home has spent today, if it has a cap per day."""
    return home_dir() / "keys" / "spending"


def known_models_path() -> Path:
    return home_dir() / "keys" / "models.json"


def repl_history_path() -> Path:
    return home_dir() / "repl_history"


def find_project_dir(start: Path) -> Path:
    """The nearest directory at or above `start` with an `agentos.toml` or a `.git`, else `start` itself."""
    for directory in (start, *start.parents):
        if (directory / "agentos.toml").is_file() or (directory / ".git").exists():
            return directory
    return start
