"""The end of a document's way: approved with its log and hash, or marked as in need of revision, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.clock import stamp
from agentos.documents.approval import ApprovalInfo, ReviewLogEntry, stamp_approval, with_status
from agentos.workflows.context import Context
from agentos.workflows.drafting import steps
from agentos.workflows.drafting.state import DraftingState

NEEDS_REVISION = "Needs revision"
_OPEN_FINDINGS = "## Appendix: Open Findings"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A document as it will be written, and the item's outcome."""

    text: str
    outcome: str
    reason: str

    @property
    def is_approved(self) -> bool:
        return self.outcome == "approved"


def conclude(state: DraftingState, text: str, context: Context) -> Conclusion:
    """`text` with its approval, or with the findings that stand against it."""
    outcome, reason = steps.conclusion(state, context.settings.limits.max_rounds)
    if outcome == "approved":
        return Conclusion(stamp_approval(text, _approval(state, context)), outcome, reason)
    return Conclusion(_with_open_findings(with_status(text, NEEDS_REVISION), state), outcome, reason)


def _approval(state: DraftingState, context: Context) -> ApprovalInfo:
    by_person = state.get("decision") == "approve"
    return ApprovalInfo(
        approved_at=stamp(context.now()),
        drafter=state["drafter"],
        reviewer=f"{state['reviewer']}, then a person" if by_person else state["reviewer"],
        issue_hash=state["source_hash"],
        log=tuple(ReviewLogEntry(**entry) for entry in state.get("log", [])),
    )


def _with_open_findings(text: str, state: DraftingState) -> str:
    complaints = [" ".join(complaint.split()) for complaint in steps.complaints_of(state)]
    if not complaints:
        return text
    return f"{text.rstrip()}\n\n{_OPEN_FINDINGS}\n\n" + "".join(f"- {entry}\n" for entry in complaints)
