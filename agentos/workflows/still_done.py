"""How a workflow checks the notes that its items are done."""

from __future__ import annotations

from pathlib import Path

from agentos.engine.done_notes import StillDone, always
from agentos.settings import Settings
from agentos.workflows.registry import WORKFLOWS


def still_done(workflow: str, project_dir: Path, settings: Settings) -> StillDone:
    """Against what the items made. Of a user's own graph nothing is known but the notes."""
    if workflow not in WORKFLOWS:
        return always
    # Readers of documents, which a graph of the user's own has no use for.
    from agentos.workflows.made import check_of  # noqa: PLC0415

    return check_of(workflow, project_dir, settings)
