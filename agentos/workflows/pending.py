"""What a run would work on and what it would skip, each for a typed reason (pure: what is known is passed in)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from agentos.engine.plan import Item

if TYPE_CHECKING:
    from agentos.sources.item import SourceItem


class ReasonKind(Enum):
    """Why an item is worked on, or why it is not. The value is how it is said."""

    NO_APPROVED_DOCUMENT = "no approved {about}"
    SOURCE_CHANGED = "the issue changed since its {about} was approved"
    UNFINISHED = "unfinished: continues from its checkpoint"
    AWAITS_REVIEW = "awaits review: {about}"
    NOT_FILED = "approved, not filed yet"
    NOT_IMPLEMENTED = "approved, not implemented"
    DESIGNED = "designed and approved: starts with its code"

    SOURCE_UNUSABLE = "would fail: {about}"

    CLOSED = "closed"
    APPROVED = "already approved: {about}"
    SOURCE_NOT_READY = "the issue itself needs revision"
    NOT_APPROVED = "not approved"
    CHANGED_SINCE_APPROVAL = "changed since it was approved ({about}): its approval no longer counts"
    MERGED = "done and merged"
    IMPLEMENTED = "implemented on {about}"
    DESIGN_APPROVED = "its design is approved already"
    WAITS_FOR_MERGE = "waits until {about} is merged"
    NO_TEXT = "has no text to work on"
    NO_DESIGN = "has no approved design"
    ANOTHERS_DESIGN = "would replace {about}, which is not its design"
    DEPENDENCY_OPEN = "depends on {about}, which is not implemented"
    BEYOND_LIMIT = "left for later by --limit {about}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Decide by its kind; the text is for people."""

    kind: ReasonKind
    about: str = ""
    further: str = ""
    """What else to say."""

    def __str__(self) -> str:
        said = self.kind.value.format(about=self.about).removesuffix(": ")
        return f"{said}; {self.further}" if self.further else said


Skipped = tuple[tuple[str, Reason], ...]
"""Ids that are not worked on, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user asked for."""

    patterns: Sequence[str] = ()
    """Ids and globs; empty means everything that is pending."""
    is_fresh: bool = False
    is_filing: bool = False
    """Approved documents that are not filed yet are pending too."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Items to run, why each, and what is skipped."""

    items: tuple[Item, ...]
    reasons: dict[str, Reason]
    skipped: Skipped
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Approval:
    """An approved document, as far as its issue is concerned."""

    issue_hash: str
    """`SourceItem.text_hash` of the issue the document was approved for."""
    document: str = ""
    """Where the document is, for people."""


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """Every item given is in exactly one of the two lists, in the order given."""

    pending: tuple[tuple[SourceItem, Reason], ...]
    skipped: Skipped


def plan_pending(
    items: Iterable[SourceItem],
    approvals: Mapping[str, Approval],
    unfinished: AbstractSet[str],
    *,
    document_kind: str = "LLD",
) -> PendingPlan:
    """Split `items` into those to run and those to skip.

    An item is pending without an approved document for its current text, or with an unfinished checkpoint. A closed
    item is never pending.
    """
    pending: list[tuple[SourceItem, Reason]] = []
    skipped: list[tuple[str, Reason]] = []
    for item in items:
        approval = approvals.get(item.id)
        if item.state == "closed":
            skipped.append((item.id, Reason(ReasonKind.CLOSED)))
        elif reason := _why_pending(item, approval, item.id in unfinished, document_kind):
            pending.append((item, reason))
        else:
            skipped.append((item.id, Reason(ReasonKind.APPROVED, approval.document if approval else "")))
    return PendingPlan(pending=tuple(pending), skipped=tuple(skipped))


def _why_pending(
    item: SourceItem, approval: Approval | None, is_unfinished: bool, document_kind: str
) -> Reason | None:
    if approval is not None and approval.issue_hash != item.text_hash:
        return Reason(ReasonKind.SOURCE_CHANGED, document_kind, ReasonKind.UNFINISHED.value if is_unfinished else "")
    if is_unfinished:
        return Reason(ReasonKind.UNFINISHED)
    return Reason(ReasonKind.NO_APPROVED_DOCUMENT, document_kind) if approval is None else None
