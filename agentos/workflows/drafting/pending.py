"""Which issues and briefs a run would work on, and what it would be given. Reads; never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentos.documents.approval import REHEARSER, Intact, verify_approval
from agentos.documents.markdown import parse
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item, input_hash
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.paths import implemented_path, worktrees_dir
from agentos.settings import Settings
from agentos.sources import FolderSource, ItemKind, SourceItem, parse_source
from agentos.text import globs
from agentos.text.suggestions import did_you_mean
from agentos.text.words import listed
from agentos.workflows.drafting.due import ISSUE, LLD, Case, Due, InPlace, decide
from agentos.workflows.item_names import item_named
from agentos.workflows.pending import Pending, Reason, ReasonKind, Wanted, unknown_dependencies

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
    places: tuple[str, ...]
    """Where an item's document may be, the likeliest first, with `id` in braces."""
    is_complete: bool = True
    """Every issue there is is among the items."""
    rehearses: bool = False
    """The reviewer is the offline model."""
    set_aside: dict[str, Reason] = field(default_factory=dict)
    """Items that are not to be worked on, and why."""

    def case(self, source: SourceItem, project_dir: Path) -> Case:
        paths = [place.format(id=source.id) for place in self.places]
        documents = tuple(document for path in paths if (document := _in_place(project_dir, path)))
        ref = ItemRef(self.workflow, source.id)
        is_unfinished = store_for(project_dir).exists(ref)
        left = store_for(project_dir).peek(ref) if is_unfinished and documents else None
        as_it_stands = input_hash(item_of(source, documents[0].text).input) if left else None
        return Case(
            source=source,
            document_kind=self.document_kind,
            label=f"{self.label_prefix}{source.id}",
            documents=documents,
            is_unfinished=is_unfinished,
            is_at_gate=left is not None and left.questions is not None,
            began_with_document=left is not None and left.input_hash == as_it_stands,
            rehearses=self.rehearses,
        )


def find_llds(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Issues without an approved LLD for their current text, or with an unfinished checkpoint."""
    items, warnings = _read(settings.sources.issues, project_dir, ItemKind.ISSUE, is_needed=not wanted.also)
    known = {item.id for item in items}
    items += [item for item in wanted.also if item.id not in known]
    places = (f"{settings.documents.lld_dir}/LLD-{{id}}.md", f"{settings.documents.lld_done_dir}/LLD-{{id}}.md")
    is_folder = isinstance(
        parse_source(settings.sources.issues, project_dir=project_dir, kind=ItemKind.ISSUE), FolderSource
    )
    stock = _Stock("lld", LLD, "LLD-", items, warnings, places, is_folder, settings.models.who_reviews == REHEARSER)
    for item in items:
        if str(parse(item.text).front_matter.get("status", "")).casefold() == _NOT_READY:
            stock.set_aside[item.id] = Reason(ReasonKind.SOURCE_NOT_READY)
        elif not stock.rehearses and _is_rehearsal(item.text):
            look = Hint.LOOK_AT_REVIEW.line(label=f"ISSUE-{item.id}")
            stock.set_aside[item.id] = Reason(ReasonKind.SOURCE_REHEARSED, further=f"decide with: {look}")
    return _split(stock, project_dir, wanted)


def _is_rehearsal(text: str) -> bool:
    """Whether an issue is as the offline model left it: nobody else builds on that."""
    found = verify_approval(text)
    return isinstance(found, Intact) and found.approval.is_rehearsal


def find_briefs(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Briefs without an issue of their current text; when filing, also those whose issue is not filed yet."""
    items, warnings = _read(settings.sources.briefs, project_dir, ItemKind.BRIEF)
    items += _cut_off_after_filing(project_dir, settings, {item.id for item in items})
    places = (f"{settings.documents.issues_dir}/{{id}}.md",)
    rehearses = settings.models.who_reviews == REHEARSER and not wanted.is_filing
    return _split(_Stock("issue", ISSUE, "ISSUE-", items, warnings, places, rehearses=rehearses), project_dir, wanted)


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


def _read(
    spec: str, project_dir: Path, kind: ItemKind, *, is_needed: bool = True
) -> tuple[list[SourceItem], list[str]]:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if isinstance(source, FolderSource):
        if not source.directory.is_dir():
            if not is_needed:
                return [], []
            raise UsageError(
                f"No folder {spec!r} in {project_dir.name}: put one Markdown file per {_one_of(kind)} there, "
                f"or name another source in agentos.toml (`{Hint.WRITE_SETTINGS.line()}` writes one)."
            )
        listing = source.read()
        return list(listing.items), [str(problem) for problem in listing.problems]
    return list(source.items()), []


def _one_of(kind: ItemKind) -> str:
    return "issue" if kind is ItemKind.ISSUE else "brief"


def _in_place(project_dir: Path, shown: str) -> InPlace | None:
    try:
        return InPlace(shown, (project_dir / shown).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _split(stock: _Stock, project_dir: Path, wanted: Wanted) -> Pending:
    files = {Path(item.origin).resolve(): item.id for item in stock.items}
    known = [item.id for item in stock.items]
    patterns = [item_named(pattern, known, lambda: files) for pattern in wanted.patterns]
    chosen = _select(stock.items, patterns)
    items, reasons, skipped = [], {}, []
    for source in chosen:
        case = stock.case(source, project_dir)
        if wanted.begins_with_document and not case.documents:
            raise UsageError(f"{case.label} has no document yet: there is nothing to review or revise.")
        if wanted.begins_with_document and _waits(stock, project_dir, source):
            look = Hint.LOOK_AT_REVIEW.line(label=case.label)
            raise UsageError(f"{case.label} waits at a gate: answer there first (`{look}`).")
        unusable = Due(Reason(ReasonKind.SOURCE_UNUSABLE, source.problem)) if source.problem else None
        decided = unusable or decide(case, replace(wanted, patterns=patterns))
        # Of a design that a person has approved for this very text nobody has to decide about the issue any more.
        if isinstance(decided, Due) or case.approved_as_it_is is None:
            decided = stock.set_aside.get(source.id) or decided
        if isinstance(decided, Reason):
            skipped.append((source.id, _with_next(decided, case)))
            continue
        items.append(item_of(source, decided.begins_with, wanted.wishes))
        reasons[source.id] = _waits(stock, project_dir, source) or decided.reason
    unknown = unknown_dependencies(items, _known_ids(stock, project_dir), stock.label_prefix)
    return without_unready(Pending(tuple(items), reasons, tuple(skipped), (*stock.warnings, *unknown)))


def _known_ids(stock: _Stock, project_dir: Path) -> set[str]:
    """What an issue may depend on: another one, a document, a branch of ours, a workstream."""
    named = {dependency for item in stock.items for dependency in item.depends_on}
    left = {
        name
        for name in named
        if any((project_dir / place.format(id=name)).is_file() for place in stock.places)
        or implemented_path(project_dir, name).exists()
        or (worktrees_dir(project_dir) / name).exists()
        # Where issues are not files, those that are closed or have other labels are not listed.
        or not stock.is_complete
    }
    return left | {item.id for item in stock.items}


def _with_next(reason: Reason, case: Case) -> Reason:
    """What waits for a person says where they decide."""
    if not reason.kind.needs_person or reason.further:
        return reason
    return replace(reason, further=f"decide with: {Hint.LOOK_AT_REVIEW.line(label=case.label)}")


def without_unready(found: Pending) -> Pending:
    """What can start (pure): not what depends on a document that needs a person first."""
    items, skipped = list(found.items), list(found.skipped)
    while True:
        unready = {item_id for item_id, reason in skipped if reason.kind.needs_person}
        unmet = {item.id: d for item in items for d in item.depends_on if d in unready}
        if not unmet:
            break
        skipped += [(i, Reason(ReasonKind.DEPENDENCY_NEEDS_PERSON, unmet[i])) for i in unmet]
        items = [item for item in items if item.id not in unmet]
    reasons = {item.id: found.reasons[item.id] for item in items}
    return replace(found, items=tuple(items), reasons=reasons, skipped=tuple(skipped))


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


def item_of(source: SourceItem, standing: str = "", wishes: str = "") -> Item:
    """An issue or brief as an item; with its document as it stands, that one is reviewed or revised."""
    given = {"standing": standing, "wishes": wishes} if standing else {}
    return Item(
        id=source.id,
        input={
            **given,
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
