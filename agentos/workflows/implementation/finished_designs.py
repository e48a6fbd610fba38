"""Designs that are done leave the active folder, as their branch says: git leaves those that were never committed."""

from __future__ import annotations

from pathlib import Path

from agentos.settings import Settings


def retire_merged(project_dir: Path, settings: Settings) -> list[str]:
    """Remove active designs whose very bytes a merge has put into the done folder. Returns where they are now."""
    folders = settings.documents
    retired = []
    for path in sorted((project_dir / folders.lld_dir).glob("LLD-*.md")):
        done = f"{folders.lld_done_dir}/{path.name}"
        content = _content(path)
        is_copy = content is not None and content == _content(project_dir / done)
        # A link may lead from one folder to the other: what is there once stays there.
        if is_copy and not path.samefile(project_dir / done):
            path.unlink()
            retired.append(done)
    return retired


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
