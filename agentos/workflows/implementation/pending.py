"""Which designs a run would implement, and which of them get in each other's way. Reads files, nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentos.documents.approval import REHEARSER, Absent, Changed, Intact, document_hash, verify_approval
from agentos.documents.lld import parse_lld
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item, Plan, select
from agentos.errors import InvalidIdentifier, UsageError
from agentos.git.worktrees import BRANCH_PREFIX
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources import FolderSource, ItemKind, natural_key, parse_source
from agentos.sources.item import SourceItem, dependency_ids
from agentos.text.identifiers import sanitize_identifier
from agentos.workflows import model_options
from agentos.workflows.implementation.overlap import Overlap, find_overlaps, merge_order
from agentos.workflows.implementation.records import (
    branch_prefix,
    has_branch,
    has_code,
    read_attempt,
    read_record,
)
from agentos.workflows.item_names import issue_files, item_named
from agentos.workflows.pending import Pending, Reason, ReasonKind, Wanted, unknown_dependencies

WORKFLOW = "implementation"
_NAME = re.compile(r"LLD-(?P<id>.+)\.md")
_NUMBER_BEFORE_TITLE = re.compile(r"#?\d+\s*[-–—:.]\s*(?:Feature\s*:\s*)?", re.IGNORECASE)
_MOST_BYTES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a user wants designs chosen."""

    allows_unapproved: bool = False
    waits_for_merge: bool = False
    """Leave a design alone until what it depends on is merged, instead of building on its branch."""


def find_designs(project_dir: Path, settings: Settings, wanted: Wanted, choices: Choices) -> Pending:
    """Approved designs that are not implemented yet, or whose implementation is unfinished.

    A design that is named is always tried: its first node refuses what is not approved, with the reason.
    """
    known = read_designs(project_dir, settings)
    ids = [design.id for design in known]
    patterns = [item_named(text, ids, lambda: issue_files(project_dir, settings)) for text in wanted.patterns]
    _refuse_undesigned(patterns, ids, project_dir, settings)
    designs = select(known, patterns)
    pending, reasons, skipped = [], {}, []
    for design in designs:
        unfinished = store_for(project_dir).exists(ItemRef(WORKFLOW, design.id))
        is_wanted_again = unfinished or (patterns and wanted.is_fresh)
        why_not = _why_waiting(design, project_dir, settings, choices)
        if not why_not and not is_wanted_again:
            why_not = why_implemented(design, project_dir, settings)
        if not why_not and not is_wanted_again:
            why_not = why_needs_revision(design, project_dir)
        unapproved = None if choices.allows_unapproved else _why_unapproved(design, settings)
        if not why_not and not patterns:
            why_not = unapproved
        if why_not:
            skipped.append((design.id, why_not))
            continue
        pending.append(design)
        reasons[design.id] = _why_pending(design, unapproved, is_unfinished=unfinished)
    unknown = unknown_dependencies(pending, _known_ids(project_dir, settings, known), "IMPL-")
    warnings = (*_unusable(project_dir, settings), *unknown)
    found = Pending(tuple(pending), reasons, tuple(skipped), warnings)
    return without_unmet(found, open_work(project_dir, settings), named=patterns)


def _refuse_undesigned(
    patterns: Iterable[str], designed: Collection[str], project_dir: Path, settings: Settings
) -> None:
    """Of an issue that is named and has no design, the error names the command that writes one."""
    issues = set(issue_files(project_dir, settings).values())
    for name in patterns:
        is_done = (project_dir / settings.documents.lld_done_dir / f"LLD-{name}.md").is_file()
        if name in issues and name not in designed and not is_done:
            models = model_options.of_run(project_dir, settings.models)
            write = Hint.CONTINUE.line(workflow="lld", item=name, options=models)
            raise UsageError(f"Issue {name} has no design yet. To write one, run: {write}")


def _known_ids(project_dir: Path, settings: Settings, designs: Sequence[Item]) -> set[str]:
    """What a design may depend on: designs, also finished ones, issues and branches."""
    done_dir = project_dir / settings.documents.lld_done_dir
    named = {dependency for design in designs for dependency in design.depends_on}
    left = {
        name
        for name in named
        if (done_dir / f"LLD-{name}.md").is_file() or has_branch(project_dir, f"{BRANCH_PREFIX}{name}")
    }
    return left | {design.id for design in designs} | _issues(project_dir, settings).keys()


def _why_pending(design: Item, unapproved: Reason | None, *, is_unfinished: bool) -> Reason:
    if unapproved is not None:
        return replace(unapproved, further=f"would be refused; {unapproved.further}")
    if is_unfinished:
        return Reason(ReasonKind.UNFINISHED)
    match verify_approval(design.input["lld_text"]):
        case Intact(approval=approval) if approval.is_rehearsal:
            return Reason(ReasonKind.REHEARSED_NOT_IMPLEMENTED)
        case _:
            return Reason(ReasonKind.NOT_IMPLEMENTED)


def why_needs_revision(design: Item, project_dir: Path) -> Reason | None:
    """What stands against the code that an earlier run wrote from this very design."""
    attempt = read_attempt(project_dir, design.id)
    if (
        attempt is None
        or attempt.document_hash != document_hash(design.input["lld_text"])
        or not has_code(project_dir, attempt)
    ):
        return None
    return Reason(
        ReasonKind.NEEDS_REVISION,
        attempt.reason,
        f"see branch {attempt.branch}; change the design and approve it, or name it with --fresh",
    )


def read_designs(project_dir: Path, settings: Settings) -> list[Item]:
    """Every readable design of the active folder as an item, in natural order."""
    folder = settings.documents.lld_dir
    issues = _issues(project_dir, settings)
    prefix = branch_prefix(project_dir)
    items = []
    for path in (project_dir / folder).glob("LLD-*.md"):
        item_id, text = _id_of(path), _text(path)
        if item_id is None or text is None:
            continue
        items.append(design_item(item_id, text, f"{folder}/{path.name}", issues.get(item_id), prefix))
    return sorted(items, key=lambda item: natural_key(item.id))


def _id_of(path: Path) -> str | None:
    match = _NAME.fullmatch(path.name)
    try:
        return sanitize_identifier(match["id"]) if match else None
    except InvalidIdentifier:
        return None


def _unusable(project_dir: Path, settings: Settings) -> list[str]:
    """Files that look like designs and are none, in words: their authors wonder where they are."""
    folder = settings.documents.lld_dir
    words = []
    for path in sorted((project_dir / folder).glob("LLD-*.md")):
        if _id_of(path) is None:
            words.append(f"{folder}/{path.name} is left out: an id has letters, digits, - and _ only")
        elif _text(path) is None:
            words.append(f"{folder}/{path.name} is left out: it is not UTF-8 text of at most {_MOST_BYTES} bytes")
    return words


def design_item(item_id: str, text: str, path: str, issue: Item | SourceItem | None = None, prefix: str = "") -> Item:
    """An item for one design. It depends on what the design says, and on what its issue says, whose turn it takes."""
    of_issue = issue.depends_on if issue else ()
    depends_on = tuple(dict.fromkeys(d for d in (*dependency_ids(text), *of_issue) if d != item_id))
    return Item(
        id=item_id,
        input={
            "item_id": item_id,
            "title": _title(text) or f"LLD-{item_id}",
            "lld_path": path,
            "lld_text": text,
            "depends_on": list(depends_on),
            "branch_prefix": prefix,
        },
        priority=issue.priority if issue else 0,
        depends_on=depends_on,
    )


def _title(text: str) -> str:
    return _NUMBER_BEFORE_TITLE.sub("", " ".join(parse_lld(text).title.split()), count=1)


def _text(path: Path) -> str | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _issues(project_dir: Path, settings: Settings) -> dict[str, SourceItem]:
    """The issues in a folder. Issues elsewhere are not asked for: their designs must say what they depend on."""
    source = parse_source(settings.sources.issues, project_dir=project_dir, kind=ItemKind.ISSUE)
    if not isinstance(source, FolderSource) or not source.directory.is_dir():
        return {}
    return {item.id: item for item in source.read().items}


def _why_waiting(design: Item, project_dir: Path, settings: Settings, choices: Choices) -> Reason | None:
    if not choices.waits_for_merge:
        return None
    documents = settings.documents
    for dependency in design.depends_on:
        is_designed = (project_dir / documents.lld_dir / f"LLD-{dependency}.md").is_file()
        # The finished design arrives in its done folder with the merge.
        if is_designed and not (project_dir / documents.lld_done_dir / f"LLD-{dependency}.md").is_file():
            return Reason(ReasonKind.WAITS_FOR_MERGE, f"LLD-{dependency}")
    return None


def open_work(project_dir: Path, settings: Settings) -> frozenset[str]:
    """Ids of issues and designs whose code is neither merged nor on a branch."""
    designs = {design.id: design for design in read_designs(project_dir, settings)}
    done_dir = project_dir / settings.documents.lld_done_dir
    known = {*designs, *_issues(project_dir, settings)}
    return frozenset(
        item_id
        for item_id in known
        if not (done_dir / f"LLD-{item_id}.md").is_file()
        and not (item_id in designs and why_implemented(designs[item_id], project_dir, settings))
    )


def without_unmet(found: Pending, still_open: Collection[str], *, named: Collection[str]) -> Pending:
    """What can start (pure): an item that depends on open work is skipped unless that is part of the same run.

    Raises UsageError for one that was asked for by name. What nothing is known about counts as merged long ago.
    """
    items, skipped = list(found.items), list(found.skipped)
    while True:
        chosen = {item.id for item in items}
        unmet = {
            item.id: dependency
            for item in items
            for dependency in item.depends_on
            if dependency in still_open and dependency not in chosen
        }
        if not unmet:
            break
        for item_id, dependency in unmet.items():
            if item_id in named:
                raise UsageError(
                    f"{item_id} depends on {dependency}, which is not implemented: run it first, or name both."
                )
            skipped.append((item_id, Reason(ReasonKind.DEPENDENCY_OPEN, dependency)))
        items = [item for item in items if item.id not in unmet]
    reasons = {item.id: found.reasons[item.id] for item in items if item.id in found.reasons}
    return replace(found, items=tuple(items), reasons=reasons, skipped=tuple(skipped))


def why_implemented(design: Item, project_dir: Path, settings: Settings) -> Reason | None:
    """Where the design's code is; None when it has none."""
    text_hash = document_hash(design.input["lld_text"])
    finished = _text(project_dir / settings.documents.lld_done_dir / f"LLD-{design.id}.md")
    if finished is not None and document_hash(finished) == text_hash:
        return Reason(ReasonKind.MERGED)
    record = read_record(project_dir, design.id)
    if record and record.document_hash == text_hash and has_code(project_dir, record):
        if record.is_rehearsal:
            return Reason(ReasonKind.REHEARSED_ON, record.branch) if settings.models.who_codes == REHEARSER else None
        return Reason(ReasonKind.IMPLEMENTED, record.branch)
    return None


def _why_unapproved(design: Item, settings: Settings) -> Reason | None:
    # Whether it can be approved as it stands is for the check to say, which `review` runs.
    answer = f"decide with: {Hint.LOOK_AT_REVIEW.line(label=f'LLD-{design.id}')}"
    match verify_approval(design.input["lld_text"]):
        case Absent():
            return Reason(ReasonKind.NOT_APPROVED, further=answer)
        case Changed(what=what):
            return Reason(ReasonKind.CHANGED_SINCE_APPROVAL, what, answer)
        case Intact(approval=approval) if approval.is_rehearsal and settings.models.who_codes != REHEARSER:
            return Reason(ReasonKind.NOT_APPROVED, further=f"only rehearsed by the offline model; {answer}")
    return None


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Which items of a plan change the same files, and an order to merge their branches in."""

    overlaps: tuple[Overlap, ...]
    merge_order: tuple[str, ...]

    def words(self, label_prefix: str = "") -> list[str]:
        """One line for each file that several items change."""
        by_file = _by_file((path, overlap) for overlap in self.overlaps for path in overlap.files)
        return [f"{path} is changed by {_labels(items, label_prefix)}" for path, items in by_file.items()]

    def additions_in_words(self, label_prefix: str = "") -> list[str]:
        """One line for each file that several items add to, and none of them changes otherwise."""
        by_file = _by_file((path, overlap) for overlap in self.overlaps for path in overlap.added_to)
        return [f"{path} is only added to by {_labels(items, label_prefix)}" for path, items in by_file.items()]

    @property
    def all_added_to(self) -> frozenset[str]:
        """The files of `additions_in_words`, in lower case."""
        changed = {path for overlap in self.overlaps for path in overlap.files}
        return frozenset({path for overlap in self.overlaps for path in overlap.added_to} - changed)

    def rivals(self) -> dict[str, tuple[str, ...]]:
        """For each item those it must not run beside; one entry per pair."""
        found: dict[str, list[str]] = {}
        for overlap in self.overlaps:
            if overlap.files:
                found.setdefault(overlap.first, []).append(overlap.second)
        return {item_id: tuple(others) for item_id, others in found.items()}


def _by_file(pairs: Iterable[tuple[str, Overlap]]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for path, overlap in pairs:
        found.setdefault(path, {}).update(dict.fromkeys((overlap.first, overlap.second)))
    return dict(sorted(found.items()))


def _labels(items: Iterable[str], label_prefix: str) -> str:
    return ", ".join(f"{label_prefix}{item_id}" for item_id in sorted(items, key=natural_key))


def find_conflicts(plan: Plan) -> Conflicts:
    """Overlaps between items of which neither builds on the other: those that do come one after the other anyway."""
    designs = {item.id: parse_lld(item.input["lld_text"]) for item in plan.items}
    changes = {item_id: design.listed_files for item_id, design in designs.items()}
    overlaps = [
        overlap
        for overlap in find_overlaps(changes, {item_id: design.added_to for item_id, design in designs.items()})
        if not _builds_on(plan.depends_on, overlap.first, overlap.second)
        and not _builds_on(plan.depends_on, overlap.second, overlap.first)
    ]
    return Conflicts(tuple(overlaps), merge_order(changes, plan.depends_on))


def _builds_on(depends_on: Mapping[str, Sequence[str]], item_id: str, other: str) -> bool:
    seen: set[str] = set()
    waiting = [item_id]
    while waiting:
        for dependency in depends_on.get(waiting.pop(), ()):
            if dependency == other:
                return True
            if dependency not in seen:
                seen.add(dependency)
                waiting.append(dependency)
    return False
