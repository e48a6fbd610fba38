"""The issue workflow's own nodes: read the brief, look at the code base, check the issue, write it down, file it."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentos import outputs
from agentos.documents.approval import ApprovalInfo, ReviewLogEntry, document_hash, stamp_approval, with_status
from agentos.documents.findings import Finding
from agentos.documents.issue import check_issue, parse_issue
from agentos.errors import AgentosError, UsageError
from agentos.paths import project_key
from agentos.settings import load_settings
from agentos.sources import GitHubSource
from agentos.workflows.drafting import steps
from agentos.workflows.drafting.graph import max_rounds
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.drafting.steps import Desk, DocumentKind
from agentos.workflows.lld.context import build_context
from agentos.workstreams.git import Git

_CONTEXT_SHARE = 0.5
"""An issue says what, not how: half the context a design gets is enough."""
_FRONT_MATTER = "---\nid: {item_id}\n---\n\n"
_REMOTE = re.compile(r"[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


class InvalidBrief(AgentosError):
    """The brief is empty."""


def check(state: DraftingState, project_dir: Path, previous: Any) -> tuple[Finding, ...]:
    return check_issue(parse_issue(state["draft"]), previous=previous)


KIND = DocumentKind(workflow="issue", label="ISSUE", check=check)


def load(state: DraftingState) -> DraftingState:
    if not state["source_text"].strip():
        raise InvalidBrief(f"Invalid brief: {state['origin']} is empty.")
    return DraftingState(lineage_number=Desk(KIND, state).record("brief", state["source_text"]))


def context(state: DraftingState) -> DraftingState:
    budget = int(load_settings(Path.cwd()).limits.context_tokens * _CONTEXT_SHARE)
    return DraftingState(context=build_context(Path.cwd(), state["source_text"], token_budget=budget).text)


def finalize(state: DraftingState) -> DraftingState:
    """Write the issue to the issues folder, where the LLD workflow finds it."""
    desk = Desk(KIND, state)
    outcome, reason = steps.conclusion(state, max_rounds())
    text = _FRONT_MATTER.format(item_id=state["item_id"]) + state["draft"].lstrip()
    if outcome == "approved":
        log = tuple(ReviewLogEntry(**entry) for entry in state.get("log", []))
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        text = stamp_approval(
            text,
            ApprovalInfo(
                approved_at=now,
                drafter=state["drafter"],
                reviewer=state["reviewer"],
                issue_hash=state["source_hash"],
                log=log,
            ),
        )
    else:
        text = with_status(text, "Needs revision")
    number = desk.record("final", text)
    outputs.write(desk.project_dir / desk.settings.documents.issues_dir / f"{state['item_id']}.md", text)
    return DraftingState(outcome=outcome, reason=reason, lineage_number=number)


def publish(state: DraftingState) -> DraftingState:
    """File the issue on GitHub, once: the key in its body finds it again after a crash. Then put the brief away."""
    project_dir = Path.cwd()
    settings = load_settings(project_dir)
    source = GitHubSource(repository_name(project_dir, settings.sources.issues))
    title = parse_issue(state["draft"]).title or state["title"]
    key = f"{project_key(project_dir)}/{state['item_id']}/{document_hash(state['source_text'])[:16]}"
    filed = source.file_issue(title, state["draft"], key=key)
    _put_away(Path(state["origin"]), project_dir / settings.sources.briefs_done)
    Desk(KIND, state).record("filed", filed.url)
    return DraftingState(filed_url=filed.url)


def repository_name(project_dir: Path, issues_source: str) -> str:
    """`owner/name`: from the settings, the environment, or the remote called origin."""
    if issues_source.startswith("github:"):
        return issues_source.removeprefix("github:").partition("?")[0]
    if os.environ.get("GITHUB_REPOSITORY"):
        return os.environ["GITHUB_REPOSITORY"]
    remote = Git(project_dir).run("remote", "get-url", "origin", ok=(0, 2, 128))
    match = _REMOTE.search(remote.stdout.strip())
    if match is None:
        raise UsageError(
            "No GitHub repository to file issues in: set GITHUB_REPOSITORY=owner/name, or issues = "
            '"github:owner/name" in agentos.toml.'
        )
    return match[1]


def _put_away(brief: Path, done_dir: Path) -> None:
    """Again after a crash, the brief is there already."""
    if brief.is_file():
        done_dir.mkdir(parents=True, exist_ok=True)
        brief.replace(done_dir / brief.name)
