"""The LLD workflow's own nodes: read the issue, look at the code base, check the design, write it down."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentos import outputs
from agentos.documents.approval import ApprovalInfo, ReviewLogEntry, stamp_approval, with_status
from agentos.documents.check import check_lld
from agentos.documents.findings import Finding
from agentos.documents.issue import parse_issue
from agentos.documents.lld import parse_lld
from agentos.documents.repository import FolderRepository
from agentos.errors import AgentosError
from agentos.settings import load_settings
from agentos.workflows.drafting import steps
from agentos.workflows.drafting.graph import max_rounds
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.drafting.steps import Desk, DocumentKind
from agentos.workflows.lld.context import build_context

_FEWEST_WORDS = 8


class InvalidSpec(AgentosError):
    """The issue is not something a design can be written for."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    number = int(state["item_id"]) if state["item_id"].isdecimal() else None
    return check_lld(
        parse_lld(state["draft"]),
        repository=FolderRepository(project_dir),
        expected_issue=number,
        previous=previous,
    )


KIND = DocumentKind(workflow="lld", label="LLD", check=check)


def load(state: DraftingState) -> DraftingState:
    """Refuse what cannot be designed for, before any model is asked."""
    text = state["source_text"]
    issue = parse_issue(text)
    if not issue.title.strip():
        raise InvalidSpec(f"Invalid spec format: {_shown(state)} has no title. Start it with a heading.")
    if len(text.split()) < _FEWEST_WORDS:
        raise InvalidSpec(f"Invalid spec format: {_shown(state)} says nothing beyond its title.")
    return DraftingState(lineage_number=Desk(KIND, state).record("issue", text))


def _shown(state: DraftingState) -> str:
    origin = Path(state["origin"])
    return str(origin.relative_to(Path.cwd())) if origin.is_relative_to(Path.cwd()) else state["origin"]


def context(state: DraftingState) -> DraftingState:
    """A digest of the real code base, ranked by what the issue talks about."""
    budget = load_settings(Path.cwd()).limits.context_tokens
    digest = build_context(Path.cwd(), state["source_text"], token_budget=budget)
    return DraftingState(context=digest.text)


def finalize(state: DraftingState) -> DraftingState:
    """Write the design: approved with its log and hash, or marked as in need of revision, with the reasons."""
    desk = Desk(KIND, state)
    outcome, reason = steps.conclusion(state, max_rounds())
    if outcome == "approved":
        text = stamp_approval(state["draft"], _approval(state))
    else:
        text = _with_open_findings(with_status(state["draft"], "Needs revision"), state)
    number = desk.record("final", text)
    path = desk.project_dir / desk.settings.documents.lld_dir / f"LLD-{state['item_id']}.md"
    outputs.write(path, text)
    return DraftingState(outcome=outcome, reason=reason, lineage_number=number)


def _approval(state: DraftingState) -> ApprovalInfo:
    log = tuple(ReviewLogEntry(**entry) for entry in state.get("log", []))
    reviewer = state["reviewer"] if state.get("decision") != "approve" else f"{state['reviewer']}, then a person"
    return ApprovalInfo(
        approved_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        drafter=state["drafter"],
        reviewer=reviewer,
        issue_hash=state["source_hash"],
        log=log,
    )


def _with_open_findings(text: str, state: DraftingState) -> str:
    complaints = [" ".join(complaint.split()) for complaint in steps.complaints_of(state)]
    if not complaints:
        return text
    return text.rstrip() + "\n\n## Appendix: Open Findings\n\n" + "".join(f"- {entry}\n" for entry in complaints)
