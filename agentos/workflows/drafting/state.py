"""The state of a document on its way: what the run is given, and one record per stage."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Final, NotRequired, TypedDict

from agentos import outcomes
from agentos.documents.approval import ReviewLogEntry
from agentos.documents.verdict import Review
from agentos.workflows.stage_records import latest

APPROVED: Final = outcomes.APPROVED.name
REHEARSED: Final = outcomes.REHEARSED.name
NEEDS_REVISION: Final = outcomes.NEEDS_REVISION.name


@dataclass(frozen=True, slots=True)
class Draft:
    text: str = ""
    previous: str = ""
    """The draft before it; empty for the first one."""
    round: int = 0
    """How many drafts there have been."""
    drafter: str = ""
    is_persons: bool = False
    """It is, or began as, a person's text."""
    is_fixed: bool = False
    """It is reviewed as it stands: nobody revises it."""


@dataclass(frozen=True, slots=True)
class Check:
    """What can be found without a model."""

    errors: tuple[str, ...] = ()
    is_repeated: bool = False
    """The draft before it had the same errors."""
    is_unchanged: bool = False
    """The draft says what the one before it said."""
    questions: tuple[str, ...] = ()
    """What the draft leaves open, when its errors are nothing else and the text is no person's."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The latest review; None before the first one."""

    review: Review | None = None
    is_repeated: bool = False
    """The review before it found the same."""
    reviewer: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person said at a gate."""

    wishes: str = ""
    """What to change; it leads to a revision."""
    is_approval: bool = False
    """The document is approved, whatever the reviewer said."""


class DraftingInput(TypedDict):
    item_id: str
    title: str
    source_text: str
    source_hash: str
    origin: str
    source_problem: NotRequired[str]
    """Why there is nothing to work on."""
    standing: NotRequired[str]
    """The document as it stands in its place, to begin with instead of a first draft."""
    wishes: NotRequired[str]
    """What a person wants changed in it; empty to have it reviewed as it is."""


class DraftingUpdate(TypedDict, total=False):
    """What nodes may return. Each stage has a record from the first node on."""

    calls: Annotated[dict[str, int], operator.or_]
    """Model calls so far, by node."""
    history: Annotated[int, latest]
    """The last entry of the item's lineage that belongs to a finished node."""
    replaces: str
    """The hash of the document that was in its place when the item began; empty when there was none."""
    digest: str
    """What the code base looks like."""
    draft: Draft
    check: Check
    reviewed: Reviewed
    decision: Decision
    log: Annotated[list[ReviewLogEntry], operator.add]
    document: str
    """The finished document, with its approval or its open findings."""
    filed_url: str
    outcome: str
    """The item's, at the end."""
    reason: str


class DraftingState(DraftingInput, DraftingUpdate):
    """What nodes are given."""
