"""A person approves a document as it stands: checked, bound to its hash, with their name on it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agentos.clock import stamp
from agentos.documents.approval import (
    ApprovalInfo,
    Intact,
    ReviewLogEntry,
    former_approval,
    stamp_approval,
    verify_approval,
)
from agentos.documents.findings import Finding, errors
from agentos.documents.unapproved import author_of, bare, open_findings, read_unapproved
from agentos.documents.verdict import Tier, Verdict
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import AgentosError, UsageError
from agentos.files import write_whole
from agentos.git.command import Git
from agentos.settings import Settings
from agentos.sources import FolderSource, ItemKind, SourceItem, parse_source
from agentos.workflows.document_paths import document_paths, lineage_dir
from agentos.workflows.lineage import Lineage
from agentos.workflows.registry import Workflow

CheckText = Callable[[str], Sequence[Finding]]


class CheckFailed(AgentosError):
    """The document does not pass the mechanical check, so nobody can approve it."""

    def __init__(self, shown: str, found: Sequence[Finding]) -> None:
        self.found = tuple(found)
        lines = "".join(f"\n  line {finding.line}: {finding.words()}" for finding in found)
        super().__init__(f"{shown} does not pass the check, so it is not approved:{lines}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingDocument:
    """A document as it stands in its place."""

    workflow: Workflow
    item_id: str
    path: Path
    text: str
    source: SourceItem | None
    """What it is written from, as it is now; None when that is not found."""

    @property
    def issue_hash(self) -> str:
        """Of what it is written from; what its last review says when that is not found."""
        return self.source.text_hash if self.source else _reviewed_for(self.text)

    @property
    def label(self) -> str:
        return self.workflow.label_prefix + self.item_id

    @property
    def is_approved(self) -> bool:
        found = verify_approval(self.text)
        is_current = isinstance(found, Intact) and found.approval.issue_hash == self.issue_hash
        return is_current and isinstance(found, Intact) and not found.approval.is_rehearsal


def find_standing(
    project_dir: Path, settings: Settings, workflow: Workflow, item_id: str, also: Sequence[SourceItem] = ()
) -> StandingDocument | None:
    """The item's document, None when there is none yet. Raises UsageError when it is no UTF-8 text.

    `also` is what documents are written from besides the project's issues and briefs.
    """
    for path in document_paths(project_dir, settings, workflow.name, item_id):
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{path.relative_to(project_dir)} is not UTF-8 text.") from None
        sources = (*_sources(project_dir, settings, workflow), *also)
        source = next((each for each in sources if each.id == item_id), None)
        return StandingDocument(workflow=workflow, item_id=item_id, path=path, text=text, source=source)
    return None


def _sources(project_dir: Path, settings: Settings, workflow: Workflow) -> tuple[SourceItem, ...]:
    kind = ItemKind.BRIEF if workflow.name == "issue" else ItemKind.ISSUE
    spec = settings.sources.briefs if kind is ItemKind.BRIEF else settings.sources.issues
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if isinstance(source, FolderSource) and not source.directory.is_dir():
        return ()
    return source.read().items if isinstance(source, FolderSource) else source.items()


def _reviewed_for(text: str) -> str:
    approval, mark = former_approval(text), read_unapproved(text)
    return approval.issue_hash if approval else mark.issue_hash if mark else ""


@dataclass(frozen=True, slots=True)
class Given:
    """An approval that a person gave."""

    by: str
    over: tuple[str, ...]
    """Blocking findings of its review that were open, and are the person's to answer for now."""


def approve(
    project_dir: Path, settings: Settings, document: StandingDocument, check: CheckText, now: datetime
) -> Given:
    """Put the approval into the document. Whoever calls this holds the item's claim.

    Raises CheckFailed, with nothing changed. What an earlier run left unfinished of the item is dropped.
    """
    body = bare(document.text)
    wrong = errors(tuple(check(body)))
    if wrong:
        raise CheckFailed(str(document.path.relative_to(project_dir)), wrong)
    given = Given(who(project_dir), _blocking(document.text))
    approved = stamp_approval(body, _approval(document, given, now))
    history = Lineage(lineage_dir(project_dir, settings, document.label))
    history.record("replaced", document.text)
    history.record("answer", f"approve, by {given.by}\n" + "".join(f"over: {each}\n" for each in given.over))
    history.record("final", approved)
    write_whole(document.path, approved)
    store_for(project_dir).remove(ItemRef(document.workflow.name, document.item_id))
    return given


def _blocking(text: str) -> tuple[str, ...]:
    mark = f"[{Tier.BLOCKING.value}] "
    return tuple(each.removeprefix(mark) for each in open_findings(text) if each.startswith(mark))


def _approval(document: StandingDocument, given: Given, now: datetime) -> ApprovalInfo:
    former = former_approval(document.text)
    log = former.log if former else ()
    number = max((entry.round for entry in log), default=0) + 1
    over = f", over blocking findings: {' / '.join(given.over)}" if given.over else "."
    entry = ReviewLogEntry(number, Verdict.APPROVE.value, given.by, f"Approved as it stands{over}")
    return ApprovalInfo(
        approved_at=stamp(now),
        drafter=author_of(document.text),
        reviewer=given.by,
        issue_hash=document.issue_hash,
        log=(*log, entry),
        person=given.by,
    )


def who(project_dir: Path) -> str:
    """Whoever sits here: as git knows them, else by the name of their account."""
    try:
        name = Git(project_dir).run("config", "user.name", ok=(0, 1)).stdout.strip()
    except AgentosError:
        name = ""
    try:
        return name or getpass.getuser()
    except (KeyError, OSError):
        return "a person"
