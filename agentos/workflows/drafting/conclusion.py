"""The end of a document's way: approved with its log and hash, or marked as in need of revision, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.clock import stamp
from agentos.documents.approval import ApprovalInfo, stamp_approval, with_status
from agentos.workflows.context import Context
from agentos.workflows.drafting import nodes
from agentos.workflows.drafting.nodes import DocumentKind
from agentos.workflows.drafting.state import APPROVED, DraftingState, DraftingUpdate

REVISION_STATUS = "Needs revision"
_OPEN_FINDINGS = "## Appendix: Open Findings"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A document as it will be written, and the item's outcome."""

    text: str
    outcome: str
    reason: str

    @property
    def is_approved(self) -> bool:
        return self.outcome == APPROVED


def conclude(state: DraftingState, text: str, context: Context) -> Conclusion:
    """`text` with its approval, or with the findings that stand against it."""
    outcome, reason = nodes.conclusion(state, context.settings.limits.max_rounds)
    if outcome == APPROVED:
        return Conclusion(stamp_approval(text, _approval(state, context)), outcome, reason)
    return Conclusion(_with_open_findings(with_status(text, REVISION_STATUS), state), outcome, reason)


def write_down(kind: DocumentKind, state: DraftingState, context: Context, concluded: Conclusion) -> DraftingUpdate:
    """Write the document where the coordinator puts it in place when the item ends."""
    path = context.document_path(kind.workflow, state["item_id"])
    history = kind.history(state, context)
    history.keep_replaced(path)
    history.record("final", concluded.text)
    context.write_document(path, concluded.text)
    return DraftingUpdate(
        document=concluded.text, outcome=concluded.outcome, reason=concluded.reason, history=history.number
    )


def _approval(state: DraftingState, context: Context) -> ApprovalInfo:
    reviewer = state["reviewed"].reviewer
    return ApprovalInfo(
        approved_at=stamp(context.now()),
        drafter=state["draft"].drafter,
        reviewer=f"{reviewer}, then {nodes.PERSON}" if state["decision"].is_approval else reviewer,
        issue_hash=state["source_hash"],
        log=tuple(state["log"]),
    )


def _with_open_findings(text: str, state: DraftingState) -> str:
    complaints = [" ".join(complaint.split()) for complaint in nodes.complaints_of(state)]
    if not complaints:
        return text
    return f"{text.rstrip()}\n\n{_OPEN_FINDINGS}\n\n" + "".join(f"- {entry}\n" for entry in complaints)
