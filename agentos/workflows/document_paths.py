"""Where an item's documents and their history are."""

from __future__ import annotations

from pathlib import Path

from agentos import paths
from agentos.settings import Settings


def document_paths(project_dir: Path, settings: Settings, workflow: str, item_id: str) -> tuple[Path, ...]:
    """Where an item's document may be, the likeliest first; nothing for workflows without one."""
    documents = settings.documents
    match workflow:
        case "lld":
            names = [f"{folder}/LLD-{item_id}.md" for folder in (documents.lld_dir, documents.lld_done_dir)]
        case "issue":
            names = [f"{documents.issues_dir}/{item_id}.md"]
        case "implementation":
            names = [f"{documents.reports_dir}/{item_id}/implementation-report.md"]
        case _:
            names = []
    return tuple(project_dir / name for name in names)


def lineage_dir(project_dir: Path, settings: Settings, label: str) -> Path:
    """Where an item's drafts, prompts and verdicts are kept, in order. `label` is `LLD-42`."""
    if settings.documents.lineage:
        return project_dir / settings.documents.lineage / label
    return paths.lineage_dir(project_dir, label)
