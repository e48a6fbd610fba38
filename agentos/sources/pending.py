"""Which items still need work, and why. Pure: what is known about approvals and checkpoints is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from agentos.sources.item import SourceItem


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

    pending: tuple[tuple[SourceItem, str], ...]
    """An item to run and why."""
    skipped: tuple[tuple[str, str], ...]
    """An id left alone and why."""


def plan_pending(
    items: Iterable[SourceItem],
    approvals: Mapping[str, Approval],
    unfinished: AbstractSet[str],
    *,
    document_kind: str = "LLD",
) -> PendingPlan:
    """Split `items` into those to run and those to leave alone.

    An item is pending without an approved document for its current text, or with an unfinished checkpoint. A closed
    item is never pending.
    """
    pending: list[tuple[SourceItem, str]] = []
    skipped: list[tuple[str, str]] = []
    for item in items:
        if item.state == "closed":
            skipped.append((item.id, "closed"))
        elif reason := _why_pending(item, approvals.get(item.id), item.id in unfinished, document_kind):
            pending.append((item, reason))
        else:
            skipped.append((item.id, _approved(approvals[item.id])))
    return PendingPlan(pending=tuple(pending), skipped=tuple(skipped))


def _why_pending(item: SourceItem, approval: Approval | None, is_unfinished: bool, document_kind: str) -> str:
    """The reason to run the item; empty when there is none."""
    is_changed = approval is not None and approval.issue_hash != item.text_hash
    reasons = []
    if is_changed:
        reasons.append(f"the issue changed since its {document_kind} was approved")
    if is_unfinished:
        reasons.append("unfinished: goes on from its checkpoint")
    if approval is None and not is_unfinished:
        reasons.append(f"no approved {document_kind}")
    return "; ".join(reasons)


def _approved(approval: Approval) -> str:
    return f"already approved: {approval.document}" if approval.document else "already approved"
