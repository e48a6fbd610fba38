"""Whether a document is due, and why: from what there is of it and what a user asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentos.documents.approval import ApprovalInfo, Changed, Intact, verify_approval
from agentos.documents.unapproved import Obstacle, Unapproved, is_a_persons, read_unapproved
from agentos.sources.item import SourceItem
from agentos.workflows.pending import Reason, ReasonKind, Wanted

ISSUE: Final = "issue"
LLD: Final = "LLD"


@dataclass(frozen=True, slots=True)
class InPlace:
    """A document where its workflow writes it, or keeps it when it is done."""

    shown: str
    """Its path, for people."""
    text: str

    @property
    def approval(self) -> ApprovalInfo | None:
        """None as well when the document changed since."""
        found = verify_approval(self.text)
        return found.approval if isinstance(found, Intact) else None

    @property
    def mark(self) -> Unapproved | None:
        return read_unapproved(self.text)

    @property
    def what_changed(self) -> str:
        """Since its approval; empty when nothing did."""
        found = verify_approval(self.text)
        return found.what if isinstance(found, Changed) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One issue or brief, and what there is of its document."""

    source: SourceItem
    document_kind: str
    label: str
    documents: tuple[InPlace, ...] = ()
    """The likeliest place first."""
    is_unfinished: bool = False
    """An earlier run left a checkpoint."""
    is_at_gate: bool = False
    """That run parked there: a person is asked, or has answered."""
    began_with_document: bool = False
    """That run began with the document as it stands: to continue it replaces nothing."""
    rehearses: bool = False
    """The run is a rehearsal itself: what another one left is as good as its own would be."""

    @property
    def approved_as_it_is(self) -> InPlace | None:
        """The document that is approved for the source's current text."""
        return next((document for document in self.documents if self._counts(document.approval)), None)

    def source_changed_since(self, document: str) -> str:
        """As reasons say it: `issue changed since its LLD`."""
        return f"{'brief' if self.document_kind == ISSUE else 'issue'} changed since {document}"

    @property
    def continues_with(self) -> str:
        """What a run that continues it is given to begin with, as the earlier one was."""
        return self.documents[0].text if self.began_with_document else ""

    def _counts(self, approval: ApprovalInfo | None) -> bool:
        if approval is None or approval.issue_hash != self.source.text_hash:
            return False
        return self.rehearses or not approval.is_rehearsal


@dataclass(frozen=True, slots=True)
class Due:
    """To be worked on."""

    reason: Reason
    begins_with: str = ""
    """The document's text, to be reviewed or revised as it stands; empty to write a new one."""


def decide(case: Case, wanted: Wanted) -> Due | Reason:
    """A reason is why it is not worked on. What a person wrote is replaced only when named with --fresh."""
    if case.source.state == "closed":
        return Reason(ReasonKind.CLOSED)
    is_named = bool(wanted.patterns)
    if is_named and wanted.is_fresh:
        return _anew(case, wanted)
    if wanted.begins_with_document and case.documents:
        kind = ReasonKind.TO_BE_REVISED if wanted.wishes else ReasonKind.TO_BE_REVIEWED
        return Due(Reason(kind, case.documents[0].shown), case.documents[0].text)
    if (approved := case.approved_as_it_is) is not None:
        if wanted.is_filing:
            return Due(Reason(ReasonKind.NOT_FILED))
        # What an earlier --fresh began is meant when a user names it or it asks one, not when it is left by chance.
        is_meant = case.is_unfinished and (is_named or case.is_at_gate)
        is_rehearsal = approved.approval is not None and approved.approval.is_rehearsal
        kind = ReasonKind.REHEARSED_ALREADY if is_rehearsal else ReasonKind.APPROVED
        return Due(Reason(ReasonKind.UNFINISHED), case.continues_with) if is_meant else Reason(kind, approved.shown)
    if case.is_unfinished:
        return _continued(case, wanted)
    return _without_approval(case, case.documents[0], wanted) if case.documents else Due(_none(case))


def _anew(case: Case, wanted: Wanted) -> Due | Reason:
    """A glob names nothing in particular: what a person wrote is not asked for by one."""
    if not case.documents:
        return Due(_none(case))
    document = case.documents[0]
    if not is_a_persons(document.text):
        return Due(Reason(ReasonKind.WRITTEN_ANEW, document.shown))
    if case.source.id not in wanted.patterns:
        return _persons(case, document, wanted)
    return Due(Reason(ReasonKind.REPLACES_PERSONS, document.shown))


def _none(case: Case) -> Reason:
    return Reason(ReasonKind.NO_APPROVED_DOCUMENT, case.document_kind)


def _continued(case: Case, wanted: Wanted) -> Due | Reason:
    """What is left of a --fresh that named a person's text, or was begun before they wrote it, is not asked for."""
    document = next(iter(case.documents), None)
    is_asked_for = case.began_with_document or case.source.id in wanted.patterns
    if document is not None and is_a_persons(document.text) and not is_asked_for:
        return _persons(case, document, wanted)
    return Due(_unfinished(case), case.continues_with)


def _unfinished(case: Case) -> Reason:
    approvals = [document.approval for document in case.documents if document.approval is not None]
    is_outdated = any(approval.issue_hash != case.source.text_hash for approval in approvals)
    if not is_outdated:
        return Reason(ReasonKind.UNFINISHED)
    return Reason(
        ReasonKind.SOURCE_CHANGED, case.source_changed_since(f"its {case.document_kind}"), ReasonKind.UNFINISHED.value
    )


def _without_approval(case: Case, document: InPlace, wanted: Wanted) -> Due | Reason:
    """There is a document, and no approval of it for this source."""
    mark = document.mark
    is_about_this_source = mark is not None and mark.issue_hash == case.source.text_hash
    if mark is not None and is_about_this_source and mark.obstacle is not Obstacle.REVIEWER:
        answered = "once that is answered, the same command continues" if mark.obstacle is Obstacle.QUESTIONS else ""
        return Reason(ReasonKind.NEEDS_REVISION, mark.reason, answered)
    if is_a_persons(document.text):
        return _persons(case, document, wanted)
    if mark is not None and is_about_this_source:
        return Due(Reason(ReasonKind.REVIEW_FAILED), document.text)
    if document.approval is not None and document.approval.is_rehearsal and not case.rehearses:
        return Due(Reason(ReasonKind.REHEARSED, case.document_kind))
    kind = ReasonKind.SOURCE_CHANGED if document.approval else ReasonKind.SOURCE_ANSWERED
    return Due(Reason(kind, case.source_changed_since(f"its {case.document_kind}")))


def _persons(case: Case, document: InPlace, wanted: Wanted) -> Reason:
    if case.document_kind == ISSUE and not wanted.is_filing:
        return Reason(ReasonKind.EDITED_ISSUE, document.shown)
    if document.approval is not None:
        is_current = document.approval.issue_hash == case.source.text_hash
        if is_current:
            return Reason(ReasonKind.REHEARSED_BY_HAND, document.shown)
        return Reason(ReasonKind.OUTDATED_BY_SOURCE, case.source_changed_since(document.shown))
    if document.what_changed:
        return Reason(ReasonKind.EDITED_SINCE_APPROVAL, f"{document.shown} ({document.what_changed})")
    return Reason(ReasonKind.WRITTEN_BY_HAND, document.shown)
