"""How a workflow checks the notes that its items are done."""

from __future__ import annotations

from pathlib import Path

from agentos.engine.documents import still_has
from agentos.engine.done_notes import StillDone
from agentos.settings import Settings
from agentos.workflows.registry import WORKFLOWS


def still_done(workflow: str, project_dir: Path, settings: Settings) -> StillDone:
    """Against what the items made. Of a user's own graph that is the documents it wrote, as far as anybody knows."""
    if workflow not in WORKFLOWS:
        return lambda item, done: still_has(project_dir, item.id, done.documents)
    # Readers of documents, which a graph of the user's own has no use for.
    from agentos.workflows.done_checks import check_of  # noqa: PLC0415

    return check_of(workflow, project_dir, settings)
