"""Where an item's documents and their history are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from agentos import paths
from agentos.settings import Settings
from agentos.workflows.registry import WORKFLOWS


def document_paths(project_dir: Path, settings: Settings, workflow: str, item_id: str) -> tuple[Path, ...]:
    """Where an item's document may be, the likeliest first; nothing for workflows without one."""
    places = WORKFLOWS[workflow].documents if workflow in WORKFLOWS else ()
    values = {**asdict(settings.documents), "id": item_id}
    return tuple(project_dir / place.format_map(values) for place in places)


def lineage_dir(project_dir: Path, settings: Settings, label: str) -> Path:
    """Where an item's drafts, prompts and verdicts are kept, in order. `label` is `LLD-42`."""
    if settings.documents.lineage:
        return project_dir / settings.documents.lineage / label
    return paths.lineage_dir(project_dir, label)
