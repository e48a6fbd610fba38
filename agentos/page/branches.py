"""The branches that items left: how much they change, and what. Asks git, and remembers what cannot change."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from agentos.dashboard.payload import Branch
from agentos.errors import AgentosError
from agentos.git.command import Git
from agentos.page.diffs import MOST_LINES, parse_unified
from agentos.page.documents import ItemPlace
from agentos.workflows.implementation.records import Implemented, has_branch


def branch_of(place: ItemPlace) -> Branch | None:
    """For the list of items."""
    record = place.branch_record()
    if record is None:
        return None
    added, removed, _ = _size(place.project_dir, record.base, record.commit)
    return Branch(name=record.branch, added=added, removed=removed)


def branch_facts(place: ItemPlace) -> dict[str, Any] | None:
    """For the page of one item."""
    record = place.branch_record()
    if record is None:
        return None
    added, removed, files = _size(place.project_dir, record.base, record.commit)
    return {
        "name": record.branch,
        "base": record.base,
        "commit": record.commit,
        "added": added,
        "removed": removed,
        "files": files,
        "state": "there" if has_branch(place.project_dir, record.branch) else "gone",
    }


def branch_diff(place: ItemPlace) -> tuple[Implemented, list[dict[str, Any]], bool] | None:
    """The branch against where it started; None when it has none. Raises AgentosError when git cannot say."""
    record = place.branch_record()
    if record is None:
        return None
    text = _diff(place.project_dir, record, "--unified=3")
    lines = text.split("\n", MOST_LINES + 1)
    files, is_cut = parse_unified(lines)
    return record, files, is_cut


def _diff(project_dir: Path, record: Implemented, *options: str) -> str:
    range_ = f"{record.base}...{record.commit or record.branch}"
    return Git(project_dir).text(
        "diff", "--no-ext-diff", "--no-textconv", "--no-color", *options, "--end-of-options", range_
    )


@lru_cache(maxsize=4096)
def _size(project_dir: Path, base: str, commit: str) -> tuple[int | None, int | None, int]:
    """Lines added and removed, and files; commits do not change."""
    record = Implemented(document_hash="", branch="", commit=commit, base=base)
    try:
        rows = [line.split("\t") for line in _diff(project_dir, record, "--numstat").splitlines()]
    except AgentosError:
        return None, None, 0
    numbers = [(row[0], row[1]) for row in rows if len(row) >= 3]
    return (
        sum(int(added) for added, _ in numbers if added.isdecimal()),
        sum(int(removed) for _, removed in numbers if removed.isdecimal()),
        len(numbers),
    )
