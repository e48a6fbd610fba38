"""Which issues and briefs a run would work on, and what it would be given. Reads; never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentos.documents.approval import Absent, Changed, verify_approval
from agentos.documents.markdown import parse
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources import FolderSource, ItemKind, SourceItem, parse_source
from agentos.text import globs
from agentos.text.suggestions import did_you_mean
from agentos.text.words import listed
from agentos.workflows.item_names import item_named
from agentos.workflows.pending import Approval, Pending, Reason, ReasonKind, Wanted, plan_pending

_NOT_READY = "needs revision"
"""The status the issue workflow gives an issue that its review did not pass."""


@dataclass(slots=True)
class _Stock:
    """What there is to choose from."""

    workflow: str
    document_kind: str
    label_prefix: str
    items: list[SourceItem]
    warnings: list[str]
    approvals: dict[str, Approval] = field(default_factory=dict)
    set_aside: dict[str, Reason] = field(default_factory=dict)
    """Items that are not to be worked on, and why."""
    better_reasons: dict[str, Reason] = field(default_factory=dict)
    """Why an item is pending, where the usual reason would not tell."""

    def note_approval(self, item_id: str, path: Path, shown: str) -> None:
        found = _approval(path, shown, self.warnings)
        if found is not None:
            self.approvals[item_id] = found


def find_llds(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Issues without an approved LLD for their current text, or with an unfinished checkpoint."""
    items, warnings = _read(settings.sources.issues, project_dir, ItemKind.ISSUE)
    stock = _Stock("lld", "LLD", "LLD-", items, warnings)
    for item in items:
        for folder in (settings.documents.lld_done_dir, settings.documents.lld_dir):
            path = project_dir / folder / f"LLD-{item.id}.md"
            stock.note_approval(item.id, path, f"{folder}/{path.name}")
        if str(parse(item.text).front_matter.get("status", "")).casefold() == _NOT_READY:
            stock.set_aside[item.id] = Reason(ReasonKind.SOURCE_NOT_READY)
    return _split(stock, project_dir, wanted)


def find_briefs(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Briefs without an issue of their current text; when filing, also those whose issue is not filed yet."""
    items, warnings = _read(settings.sources.briefs, project_dir, ItemKind.BRIEF)
    items += _cut_off_after_filing(project_dir, settings, {item.id for item in items})
    stock = _Stock("issue", "issue", "ISSUE-", items, warnings)
    for item in items:
        folder = settings.documents.issues_dir
        stock.note_approval(item.id, project_dir / folder / f"{item.id}.md", f"{folder}/{item.id}.md")
    if wanted.is_filing:
        # A filed brief is no longer among the active ones: whatever is there has its filing before it.
        current = [i.id for i in items if i.id in stock.approvals and stock.approvals[i.id].issue_hash == i.text_hash]
        stock.better_reasons = dict.fromkeys(current, Reason(ReasonKind.NOT_FILED))
        stock.approvals = {}
    return _split(stock, project_dir, wanted)


def _cut_off_after_filing(project_dir: Path, settings: Settings, active: set[str]) -> list[SourceItem]:
    """Briefs put away by a run that was killed before it could write their issue down."""
    source = parse_source(settings.sources.briefs, project_dir=project_dir, kind=ItemKind.BRIEF)
    done_dir = project_dir / settings.sources.briefs_done
    if not isinstance(source, FolderSource) or not done_dir.is_dir():
        return []
    items = FolderSource(done_dir, kind=ItemKind.BRIEF).read().items
    checkpoints = store_for(project_dir)
    return [
        # As it was when the item began: the checkpoint belongs to that input.
        replace(item, origin=str(source.directory / Path(item.origin).name))
        for item in items
        if item.id not in active and checkpoints.exists(ItemRef("issue", item.id))
    ]


def _read(spec: str, project_dir: Path, kind: ItemKind) -> tuple[list[SourceItem], list[str]]:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if isinstance(source, FolderSource):
        if not source.directory.is_dir():
            raise UsageError(
                f"No folder {spec!r} in {project_dir.name}: put one Markdown file per {_one_of(kind)} there, "
                f"or name another source in agentos.toml (`{Hint.WRITE_SETTINGS.line()}` writes one)."
            )
        listing = source.read()
        return list(listing.items), [str(problem) for problem in listing.problems]
    return list(source.items()), []


def _one_of(kind: ItemKind) -> str:
    return "issue" if kind is ItemKind.ISSUE else "brief"


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


def _split(stock: _Stock, project_dir: Path, wanted: Wanted) -> Pending:
    files = {Path(item.origin).resolve(): item.id for item in stock.items}
    known = [item.id for item in stock.items]
    patterns = [item_named(pattern, known, lambda: files) for pattern in wanted.patterns]
    chosen = _select(stock.items, patterns)
    checkpoints = store_for(project_dir)
    unfinished = {i.id for i in chosen if checkpoints.exists(ItemRef(stock.workflow, i.id))}
    # Named and with --fresh: the user wants it again, approved or not.
    approvals = {} if wanted.is_fresh and patterns else stock.approvals
    ready = [item for item in chosen if item.id not in stock.set_aside]
    plan = plan_pending(ready, approvals, unfinished, document_kind=stock.document_kind)
    return Pending(
        items=tuple(_item(item) for item, _ in plan.pending),
        reasons={i.id: _better_reason(stock, project_dir, i) or reason for i, reason in plan.pending},
        skipped=(*plan.skipped, *((i.id, stock.set_aside[i.id]) for i in chosen if i.id in stock.set_aside)),
        warnings=tuple(stock.warnings),
    )


def _better_reason(stock: _Stock, project_dir: Path, item: SourceItem) -> Reason | None:
    if item.problem:
        return Reason(ReasonKind.SOURCE_UNUSABLE, item.problem)
    return _waits(stock, project_dir, item) or stock.better_reasons.get(item.id)


def _waits(stock: _Stock, project_dir: Path, item: SourceItem) -> Reason | None:
    found = store_for(project_dir).peek(ItemRef(stock.workflow, item.id))
    if found is None or found.questions is None or found.answer is not None:
        return None
    return Reason(ReasonKind.AWAITS_REVIEW, Hint.LOOK_AT_REVIEW.line(label=f"{stock.label_prefix}{item.id}"))


def _select(items: Iterable[SourceItem], patterns: Sequence[str]) -> list[SourceItem]:
    known = list(items)
    if not patterns:
        return known
    named, unknown = globs.chosen(patterns, {item.id for item in known})
    if unknown:
        ids = [item.id for item in known]
        hint = did_you_mean(unknown[0], ids, f"Known: {listed(ids, 8) or 'none'}.")
        raise UsageError(f"No issue matches {unknown[0]!r}.{hint}")
    return [item for item in known if item.id in set(named)]


def _item(source: SourceItem) -> Item:
    return Item(
        id=source.id,
        input={
            "item_id": source.id,
            "title": source.title,
            "source_text": source.text,
            "source_hash": source.text_hash,
            "origin": source.origin,
            **({"source_problem": source.problem} if source.problem else {}),
        },
        priority=source.priority,
        depends_on=source.depends_on,
    )
