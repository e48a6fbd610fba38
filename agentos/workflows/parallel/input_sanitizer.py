"""The promised names for identifier rules; the rules are in `agentos.text.identifiers`."""

from __future__ import annotations

from pathlib import Path

from agentos.engine.checkpoints import local_store
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import InvalidIdentifier
from agentos.paths import find_project_dir
from agentos.text.identifiers import sanitize_identifier

__all__ = ["build_checkpoint_db_path", "sanitize_identifier", "sanitize_issue_number"]

# With an id of 128 characters and the longest suffix of a side file the name still fits the usual 255 bytes.
MAX_WORKFLOW_TYPE_LENGTH = 64


def sanitize_issue_number(issue_number: str) -> str:
    """`sanitize_identifier` under the name LLD-1106 gives it: issue numbers follow the rules of every id."""
    return sanitize_identifier(issue_number)


def build_checkpoint_db_path(workflow_type: str, issue_number: str, project_dir: Path | None = None) -> Path:
    """Where the item's checkpoint database lives; nothing is created.

    Without `project_dir` the project is the one around the current directory. Raises `InvalidIdentifier` if the type
    or the id could lead elsewhere.
    """
    workflow_type = sanitize_identifier(workflow_type)
    if len(workflow_type) > MAX_WORKFLOW_TYPE_LENGTH:
        raise InvalidIdentifier(
            f"Invalid identifier {workflow_type[:60]!a}...: a workflow type has at most "
            f"{MAX_WORKFLOW_TYPE_LENGTH} characters; choose a shorter name"
        )
    item_id = sanitize_identifier(issue_number)
    store = local_store(project_dir or find_project_dir(Path.cwd()))
    return Path(store.address(ItemRef(workflow_type, item_id)))
