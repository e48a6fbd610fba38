"""The LLD workflow's own nodes: read the issue, look at the code base, check the design, write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos.codebase.context import build_context
from agentos.documents.findings import Finding
from agentos.documents.issue import parse_issue
from agentos.errors import AgentosError
from agentos.workflows.context import Context
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.conclusion import finish
from agentos.workflows.drafting.nodes import DocumentKind, shown_origin
from agentos.workflows.drafting.state import DraftingState, DraftingUpdate

_FEWEST_WORDS = 8


class InvalidSpec(AgentosError):
    """The issue is not something a design can be written for."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    return check_document("lld", state["draft"].text, state["item_id"], project_dir, previous)


KIND = DocumentKind(workflow="lld", label="LLD", check=check)


def load(state: DraftingState, context: Context) -> DraftingUpdate:
    """Refuse what cannot be designed for, before any model is asked."""
    text = state["source_text"]
    issue = parse_issue(text)
    if not issue.title.strip():
        raise InvalidSpec(
            f"Invalid spec format: {shown_origin(state, context)} has no title. Start it with a heading."
        )
    if len(text.split()) < _FEWEST_WORDS:
        raise InvalidSpec(f"Invalid spec format: {shown_origin(state, context)} says nothing beyond its title.")
    history = KIND.history(state, context)
    history.record("issue", text)
    return DraftingUpdate(history=history.number)


def digest(state: DraftingState, context: Context) -> DraftingUpdate:
    """A digest of the real code base, ranked by what the issue talks about."""
    budget = context.settings.limits.context_tokens
    digest = build_context(context.project_dir, state["source_text"], token_budget=budget)
    return DraftingUpdate(digest=digest)


def finalize(state: DraftingState, context: Context) -> DraftingUpdate:
    return finish(KIND, state, context, lambda _outcome: state["draft"].text)
