"""The LLD workflow's own nodes: read the issue, look at the code base, check the design, write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos.codebase.context import build_context
from agentos.documents.check import check_lld
from agentos.documents.findings import Finding
from agentos.documents.issue import parse_issue
from agentos.documents.known_paths import FolderPaths
from agentos.documents.lld import parse_lld
from agentos.errors import AgentosError
from agentos.workflows.context import Context
from agentos.workflows.drafting.conclusion import conclude, write_down
from agentos.workflows.drafting.nodes import DocumentKind, shown_origin
from agentos.workflows.drafting.state import DraftingState, DraftingUpdate

_FEWEST_WORDS = 8


class InvalidSpec(AgentosError):
    """The issue is not something a design can be written for."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    number = int(state["item_id"]) if state["item_id"].isdecimal() else None
    found = check_lld(
        parse_lld(state["draft"].text),
        repository=FolderPaths(project_dir),
        expected_issue=number,
        previous=previous,
    )
    # Issues in files may go by a name, workstreams always do: such a design has no number to give.
    return found if number is not None else tuple(finding for finding in found if finding.rule != "LLD003")


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
    return write_down(KIND, state, context, conclude(state, state["draft"].text, context))
