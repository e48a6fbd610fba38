"""What a run would work on and what it would skip, each for a typed reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from agentos.engine.plan import Item
from agentos.text.words import one_line

if TYPE_CHECKING:
    from agentos.sources.item import SourceItem


class ReasonKind(Enum):
    """Why an item is worked on, or why it is not. The value is how it is said."""

    NO_APPROVED_DOCUMENT = "no approved {about}"
    WRITTEN_ANEW = "--fresh rewrites {about}"
    REPLACES_PERSONS = "--fresh replaces {about}, a person's text; it stays in the item's history"
    SOURCE_CHANGED = "the {about} was approved"
    SOURCE_ANSWERED = "the {about} was found to need revision"
    REVIEW_FAILED = "its review could not be verified: it is reviewed again"
    TO_BE_REVIEWED = "{about} is reviewed as it stands"
    TO_BE_REVISED = "{about} is revised as asked"
    UNFINISHED = "unfinished: continues where it stopped"
    AWAITS_REVIEW = "awaits review: {about}"
    NOT_FILED = "approved, not filed yet"
    NOT_IMPLEMENTED = "approved, not implemented"
    REHEARSED_NOT_IMPLEMENTED = "rehearsed, not implemented"
    DESIGNED = "designed and approved: starts with its code"
    DESIGNED_IN_REHEARSAL = "its design is a rehearsal: starts with its code"

    SOURCE_UNUSABLE = "would fail: {about}"

    REHEARSED = "its {about} is a rehearsal by the offline model"

    CLOSED = "closed"
    REHEARSED_ALREADY = "already rehearsed: {about}"
    REHEARSED_ON = "rehearsed on {about}"
    APPROVED = "already approved: {about}"
    SOURCE_NOT_READY = "the issue itself needs revision"
    SOURCE_REHEARSED = "the issue itself is a rehearsal by the offline model"
    NOT_APPROVED = "not approved"
    CHANGED_SINCE_APPROVAL = "changed since it was approved ({about}): its approval no longer counts"
    MERGED = "done and merged"
    IMPLEMENTED = "implemented on {about}"
    DESIGN_APPROVED = "its design is approved already"
    DESIGN_REHEARSED = "its design is rehearsed already"
    WAITS_FOR_MERGE = "waits until {about} is merged"
    NO_TEXT = "has no text to work on"
    NO_DESIGN = "has no approved design"
    PERSONS_DESIGN = "has a design that a person wrote or changed: {about}"
    ANOTHERS_DESIGN = "would replace {about}, which is not its design"
    DEPENDENCY_OPEN = "depends on {about}, which is not implemented"
    BEYOND_LIMIT = "left for later by --limit {about}"
    DEPENDENCY_NEEDS_PERSON = "depends on {about}, which needs you first"
    DESIGN_UNFINISHED = "its design was begun on its own and is not finished"
    PIPELINE_UNFINISHED = "was begun by a pipeline and is not finished"
    DESIGNED_APART = "was begun by a pipeline before its design was approved"
    NEEDS_REVISION = "needs revision: {about}"
    EDITED_SINCE_APPROVAL = "a person edited {about} since it was approved"
    OUTDATED_BY_SOURCE = "the {about}, a person's text, was approved"
    REHEARSED_BY_HAND = "{about} is a person's text, and only the offline model has reviewed it"
    WRITTEN_BY_HAND = "{about} is a person's text that nobody approved"
    EDITED_ISSUE = "{about} is a person's text: it stays as it is"

    @property
    def needs_person(self) -> bool:
        """Nothing was done about it, and nothing will be until somebody decides."""
        return self in _FOR_A_PERSON

    @property
    def is_refusal(self) -> bool:
        """Of an item that a run takes up all the same: its first node refuses it."""
        return self in _REFUSED


_REFUSED = frozenset({ReasonKind.SOURCE_UNUSABLE, ReasonKind.NOT_APPROVED, ReasonKind.CHANGED_SINCE_APPROVAL})

_FOR_A_PERSON = frozenset(
    {
        ReasonKind.SOURCE_REHEARSED,
        ReasonKind.NOT_APPROVED,
        ReasonKind.CHANGED_SINCE_APPROVAL,
        ReasonKind.DESIGN_UNFINISHED,
        ReasonKind.PIPELINE_UNFINISHED,
        ReasonKind.DESIGNED_APART,
        ReasonKind.NEEDS_REVISION,
        ReasonKind.EDITED_SINCE_APPROVAL,
        ReasonKind.OUTDATED_BY_SOURCE,
        ReasonKind.REHEARSED_BY_HAND,
        ReasonKind.WRITTEN_BY_HAND,
        ReasonKind.DEPENDENCY_NEEDS_PERSON,
    }
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Decide by its kind; the text is for people."""

    kind: ReasonKind
    about: str = ""
    further: str = ""
    """What else to say."""

    def __str__(self) -> str:
        said = self.kind.value.format(about=self.about).removesuffix(": ")
        return f"{said.rstrip('.')}; {self.further}" if self.further else said


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
    is_review_again: bool = False
    """Documents are reviewed as they stand."""
    wishes: str = ""
    """What a person wants changed in the documents as they stand."""
    also: Sequence[SourceItem] = ()
    """What else has a document, though it is in no source: a workstream's text."""

    @property
    def begins_with_document(self) -> bool:
        return self.is_review_again or bool(self.wishes)


@dataclass(frozen=True, slots=True)
class Pending:
    """Items to run, why each, and what is skipped."""

    items: tuple[Item, ...]
    reasons: dict[str, Reason]
    skipped: Skipped
    warnings: tuple[str, ...] = ()


def unknown_dependencies(items: Iterable[Item], known: Collection[str], label_prefix: str = "") -> list[str]:
    """What items depend on and nobody knows, in words: such a dependency is not waited for, and may be a typo."""
    return [
        f"{label_prefix}{item.id} depends on {one_line(name, 60)}, which is not known here: it is not waited for"
        for item in items
        for name in item.depends_on
        if name not in known
    ]
