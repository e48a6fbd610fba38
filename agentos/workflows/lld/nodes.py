"""The LLD workflow's own nodes: read the issue, look at the code base, check the design, write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos import outputs
from agentos.codebase.context import build_context
from agentos.documents.check import check_lld
from agentos.documents.findings import Finding
from agentos.documents.issue import parse_issue
from agentos.documents.lld import parse_lld
from agentos.documents.repository import FolderRepository
from agentos.errors import AgentosError
from agentos.settings import load_settings
from agentos.workflows.drafting.conclusion import conclude
from agentos.workflows.drafting.document_paths import document_paths
from agentos.workflows.drafting.graph import max_rounds
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.drafting.steps import Desk, DocumentKind

_FEWEST_WORDS = 8


class InvalidSpec(AgentosError):
    """The issue is not something a design can be written for."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    number = int(state["item_id"]) if state["item_id"].isdecimal() else None
    found = check_lld(
        parse_lld(state["draft"]),
        repository=FolderRepository(project_dir),
        expected_issue=number,
        previous=previous,
    )
    # Issues in files may go by a name, workstreams always do: such a design has no number to give.
    return found if number is not None else tuple(finding for finding in found if finding.rule != "LLD003")


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
    """Write the design where the coordinator puts it in place when the item ends."""
    desk = Desk(KIND, state)
    concluded = conclude(state, state["draft"], max_rounds())
    path = document_paths(desk.project_dir, desk.settings, KIND.workflow, state["item_id"])[0]
    desk.keep_replaced(path)
    number = desk.record("final", concluded.text)
    outputs.write(path, concluded.text)
    return DraftingState(outcome=concluded.outcome, reason=concluded.reason, lineage_number=number)
