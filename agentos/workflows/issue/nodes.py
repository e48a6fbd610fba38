"""The issue workflow's own nodes: read the brief, look at the code base, check the issue, write it down, file it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentos.codebase.context import build_context
from agentos.documents.approval import Intact, verify_approval, without_approval
from agentos.documents.findings import Finding
from agentos.documents.issue import parse_issue
from agentos.errors import AgentosError
from agentos.sources import GitHubSource
from agentos.workflows.context import Context
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.conclusion import REVISION_STATUS, finish
from agentos.workflows.drafting.nodes import DocumentKind
from agentos.workflows.drafting.state import APPROVED, REHEARSED, Draft, DraftingState, DraftingUpdate

_CONTEXT_SHARE = 0.5
"""An issue says what, not how: half the context a design gets is enough."""
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


class InvalidBrief(AgentosError):
    """The brief is empty."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    return check_document("issue", state["draft"].text, state["item_id"], project_dir, previous)


KIND = DocumentKind(workflow="issue", label="ISSUE", check=check)


def is_filing_wanted(context: Context) -> bool:
    return bool(context.files_issues_in)


def load(state: DraftingState, context: Context) -> DraftingUpdate:
    """Take in the brief. One whose issue an earlier run approved has only its filing left to do."""
    if not state["source_text"].strip():
        raise InvalidBrief(f"Invalid brief: {state['origin']} is empty.")
    history = KIND.history(state, context)
    history.record("brief", state["source_text"])
    approved = approved_issue(context.document_path(KIND.workflow, state["item_id"]), state["source_hash"])
    if approved and is_filing_wanted(context):
        return DraftingUpdate(history=history.number, draft=Draft(approved), outcome=APPROVED)
    return DraftingUpdate(history=history.number)


def approved_issue(path: Path, brief_hash: str) -> str:
    """The text of an issue that stands approved for this very brief, without front matter and approval; or empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = verify_approval(text)
    if not isinstance(found, Intact) or found.approval.issue_hash != brief_hash or found.approval.is_rehearsal:
        return ""
    return _FRONT_MATTER.sub("", without_approval(text), count=1).strip() + "\n"


def digest(state: DraftingState, context: Context) -> DraftingUpdate:
    budget = int(context.settings.limits.context_tokens * _CONTEXT_SHARE)
    digest = build_context(context.project_dir, state["source_text"], token_budget=budget)
    return DraftingUpdate(digest=digest)


def finalize(state: DraftingState, context: Context) -> DraftingUpdate:
    """Write the issue to the issues folder, where the LLD workflow finds it."""
    return finish(KIND, state, context, lambda outcome: _with_front_matter(state, outcome))


def _with_front_matter(state: DraftingState, outcome: str) -> str:
    # Said in the front matter, an issue's place for it: nobody designs for an issue that is not ready.
    status = "" if outcome in (APPROVED, REHEARSED) else f"status: {REVISION_STATUS}\n"
    text = state["draft"].text.lstrip()
    match = _FRONT_MATTER.match(text)
    own = [line for line in match[0].splitlines()[1:-1] if not line.startswith(("id:", "status:"))] if match else []
    more = "".join(f"{line}\n" for line in own)
    body = text[match.end() :] if match else text
    return f"---\nid: {state['item_id']}\n{status}{more}---\n\n{body.lstrip()}"


def publish(state: DraftingState, context: Context) -> DraftingUpdate:
    """File the issue on GitHub, once: the key in its body finds it again after a crash. Then put the brief away."""
    source = GitHubSource(context.files_issues_in)
    title = parse_issue(state["draft"].text).title or state["title"]
    # Not by project folder: a colleague's clone with the same brief finds the issue too.
    key = f"{source.repository}/{state['item_id']}/{state['source_hash']}"
    filed = source.file_issue(title, state["draft"].text, key=key)
    history = KIND.history(state, context)
    history.record("filed", f"{filed.url}\n")
    _put_away(Path(state["origin"]), context.project_dir / context.settings.sources.briefs_done)
    words = "filed as" if filed.is_new else "was filed already as"
    return DraftingUpdate(filed_url=filed.url, reason=f"{words} {filed.url}", history=history.number)


def _put_away(brief: Path, done_dir: Path) -> None:
    """Again after a crash, the brief is there already. An older brief of that name is kept."""
    if not brief.is_file():
        return
    done_dir.mkdir(parents=True, exist_ok=True)
    target = done_dir / brief.name
    number = 2
    while target.exists():
        target = done_dir / f"{brief.stem}-{number}{brief.suffix}"
        number += 1
    brief.rename(target)
