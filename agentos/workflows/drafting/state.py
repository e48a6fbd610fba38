"""The state of a document on its way: typed, and small enough to read in a checkpoint."""

from __future__ import annotations

from typing import Any, TypedDict


class DraftingState(TypedDict, total=False):
    # What the run is given.
    item_id: str
    title: str
    source_text: str
    source_hash: str
    origin: str

    # What the nodes make of it.
    context: str
    draft: str
    previous_draft: str
    round: int
    """How many drafts there have been."""
    errors: list[str]
    """What the mechanical check holds against the current draft."""
    previous_errors: list[str]
    is_unchanged: bool
    """The latest revision says what the draft before it said."""
    review: dict[str, Any]
    """The latest verdict, as `documents.verdict.review_data` writes it."""
    previous_review: dict[str, Any]
    log: list[dict[str, Any]]
    """One entry a review, for the document's review log."""
    wishes: str
    """What a person asked for at a gate."""
    decision: str
    """`approve` when a person approved at the verdict gate."""
    lineage_number: int
    drafter: str
    reviewer: str

    filed_url: str

    # How it ended.
    outcome: str
    reason: str
