"""Which issues and briefs a run would work on, and what it would be given. Reads; never writes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.documents.approval import Absent, Changed, verify_approval
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.sources import Approval, FolderSource, ItemKind, SourceItem, parse_source, plan_pending
from agentos.workflows import checkpoint
from agentos.workflows.plan import Item


@dataclass(frozen=True, slots=True)
class Pending:
    """Items to run, why each, and what is left alone."""

    items: tuple[Item, ...]
    reasons: dict[str, str]
    skipped: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()


def find_llds(project_dir: Path, settings: Settings, patterns: Sequence[str], *, fresh: bool) -> Pending:
    """Issues without an approved LLD for their current text, or with an unfinished checkpoint."""
    items, warnings = _read(settings.sources.issues, project_dir, ItemKind.ISSUE)
    approvals: dict[str, Approval] = {}
    for folder in (settings.documents.lld_done_dir, settings.documents.lld_dir):
        for item in items:
            path = project_dir / folder / f"LLD-{item.id}.md"
            found = _approval(path, f"{folder}/{path.name}", warnings)
            if found is not None:
                approvals[item.id] = found
    return _split(project_dir, "lld", "LLD-", items, approvals, patterns, warnings, fresh=fresh)


def find_briefs(project_dir: Path, settings: Settings, patterns: Sequence[str], *, fresh: bool) -> Pending:
    """Briefs without an issue of their current text."""
    items, warnings = _read(settings.sources.briefs, project_dir, ItemKind.BRIEF)
    folder = settings.documents.issues_dir
    approvals: dict[str, Approval] = {}
    for item in items:
        found = _approval(project_dir / folder / f"{item.id}.md", f"{folder}/{item.id}.md", warnings)
        if found is not None:
            approvals[item.id] = found
    return _split(project_dir, "issue", "ISSUE-", items, approvals, patterns, warnings, fresh=fresh)


def _read(spec: str, project_dir: Path, kind: ItemKind) -> tuple[list[SourceItem], list[str]]:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if isinstance(source, FolderSource):
        if not source.directory.is_dir():
            raise UsageError(
                f"No folder {spec!r} in {project_dir.name}: put one Markdown file an issue there, "
                "or name another source in agentos.toml (agentos init writes one)."
            )
        listing = source.read()
        return list(listing.items), [str(problem) for problem in listing.problems]
    return list(source.items()), []


def _approval(path: Path, shown: str, warnings: list[str]) -> Approval | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match verify_approval(text):
        case Absent():
            return None
        case Changed(what=what):
            warnings.append(f"{shown} changed since it was approved ({what}): its approval no longer counts")
            return None
        case intact:
            return Approval(intact.approval.issue_hash, shown)


def _split(
    project_dir: Path,
    workflow: str,
    label_prefix: str,
    items: Iterable[SourceItem],
    approvals: dict[str, Approval],
    patterns: Sequence[str],
    warnings: list[str],
    *,
    fresh: bool,
) -> Pending:
    chosen = _select(list(items), [pattern.removeprefix(label_prefix) for pattern in patterns])
    unfinished = {item.id for item in chosen if checkpoint.path_for(project_dir, workflow, item.id).exists()}
    # Named and with --fresh: the user wants it again, approved or not.
    known = {} if fresh and patterns else approvals
    plan = plan_pending(chosen, known, unfinished, document_kind="LLD" if workflow == "lld" else "issue")
    return Pending(
        items=tuple(_item(item) for item, _ in plan.pending),
        reasons={item.id: reason for item, reason in plan.pending},
        skipped=plan.skipped,
        warnings=tuple(warnings),
    )


def _select(items: list[SourceItem], patterns: Sequence[str]) -> list[SourceItem]:
    if not patterns:
        return items
    chosen: set[str] = set()
    for pattern in dict.fromkeys(patterns):
        matches = {item.id for item in items if item.id == pattern or fnmatch.fnmatchcase(item.id, pattern)}
        if not matches:
            known = ", ".join(item.id for item in items[:8]) or "none"
            raise UsageError(f"No issue matches {pattern!r}. Known: {known}{' and more' if len(items) > 8 else ''}.")
        chosen |= matches
    return [item for item in items if item.id in chosen]


def _item(source: SourceItem) -> Item:
    return Item(
        id=source.id,
        input={
            "item_id": source.id,
            "title": source.title,
            "source_text": source.text,
            "source_hash": source.text_hash,
            "origin": source.origin,
        },
        priority=source.priority,
        depends_on=source.depends_on,
    )
