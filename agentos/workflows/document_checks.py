"""The mechanical check of a workflow's documents: the same for a model's draft and for what a person wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos.documents.check import check_lld
from agentos.documents.findings import Finding
from agentos.documents.issue import check_issue, parse_issue
from agentos.documents.known_paths import FolderPaths
from agentos.documents.lld import parse_lld


def check_document(
    workflow: str, text: str, item_id: str, project_dir: Path, previous: Any = None
) -> tuple[Finding, ...]:
    """`previous` is the document before a revision, parsed."""
    if workflow == "issue":
        return check_issue(parse_issue(text), previous=previous)
    # Issues in files may go by a name, workstreams always do.
    number = int(item_id) if item_id.isdecimal() else None
    return check_lld(
        parse_lld(text),
        repository=FolderPaths(project_dir),
        expected_issue=number,
        is_named=number is None,
        previous=previous,
    )
