"""`agentos show`: one item's document with its approval, findings, history and last run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.cli import review_documents
from agentos.cli.graph_items import GraphItem, find_graph_item, is_graph_and_id
from agentos.cli.known_names import item_hint
from agentos.cli.options import project_from
from agentos.cli.output import say_document, say_json
from agentos.cli.pages import show_page
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.documents.approval import Absent, Changed, Intact, verify_approval
from agentos.documents.check import check_lld
from agentos.documents.findings import Finding
from agentos.documents.issue import check_issue, parse_issue
from agentos.documents.known_paths import FolderPaths
from agentos.documents.lld import parse_lld
from agentos.documents.unapproved import for_readers
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, Standing
from agentos.errors import AgentosError, UsageError
from agentos.git.command import Git
from agentos.hints import Hint
from agentos.reporters.last_run import LastRun, last_run
from agentos.reporters.wording import outcome_words
from agentos.settings import Settings, load_settings
from agentos.text.words import one_line
from agentos.workflows.document_paths import document_paths, lineage_dir
from agentos.workflows.implementation.records import has_branch, read_attempt, read_record
from agentos.workflows.item_names import find_item
from agentos.workflows.lineage import Entry, Lineage
from agentos.workflows.registry import WORKFLOWS, Workflow, label_of


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show an item's document with its status, approval, findings, history, last run and log."
    parser.add_argument(
        "item", metavar="ITEM", help="an item, like 42, LLD-42, ISSUE-login-page, or the path of its file"
    )
    parser.add_argument("--lineage", type=int, metavar="N", help="print entry N of the item's history unrendered")
    parser.add_argument("--prompt", action="store_true", help="print the last prompt of the item's history")
    add_json_option(parser)
    add_project_option(parser, "the project the item belongs to")
    parser.set_defaults(handler=run)


_RUN_BY = {"lld": ("lld", "pipeline"), "implementation": ("implementation", "pipeline")}
"""Whose runs an item's stage may have been part of."""
_AWAITS_REVIEW = "awaits review"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """Everything that is known of an item."""

    label: str
    path: Path | None
    branch_place: str
    """Where the document is on the item's branch, when it is there."""
    text: str
    """The document; the latest draft when there is none yet."""
    status: str
    approval: str
    state: str
    findings: tuple[Finding, ...]
    next_step: str
    entries: tuple[Entry, ...]
    lineage_dir: Path
    last: LastRun | None


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    settings = load_settings(project_dir)
    if is_graph_and_id(arguments.item):
        return _show_graph_item(project_dir, arguments)
    workflow, item_id = find_item(arguments.item, project_dir, settings)
    # The first document of a pipeline is its design, with a design's history.
    prefix = WORKFLOWS["lld" if workflow.name == "pipeline" else workflow.name].label_prefix
    lineage = Lineage(lineage_dir(project_dir, settings, prefix + item_id))
    if arguments.prompt or arguments.lineage is not None:
        return _show_entry(lineage, arguments)
    item = _gather(project_dir, settings, workflow, item_id, lineage)
    if item is None:
        return _show_graph_item(project_dir, arguments, label_of(workflow.name, item_id))
    if arguments.json:
        say_json(_document(item))
        return 0
    show_page(_lines(item), for_readers(item.text) if item.text else "")
    return 0


def _show_graph_item(project_dir: Path, arguments: argparse.Namespace, label: str = "") -> int:
    """What is nobody's document may be an item of the user's own graph. Raises UsageError when nothing is known."""
    item, name = find_graph_item(project_dir, arguments.item), one_line(arguments.item, 60)
    if item is None:
        hint = item_hint(label or arguments.item, project_dir)
        raise UsageError(f"Nothing is known of {name}: no document, no history, no run of this project.{hint}")
    if arguments.prompt or arguments.lineage is not None:
        raise UsageError(f"{name} is an item of the graph {item.workflow}: no history of it is kept.")
    if arguments.json:
        say_json(_graph_document(item))
    else:
        show_page(_graph_lines(item), item.result_text, is_markdown=False, language="json")
    return 0


def _graph_lines(item: GraphItem) -> list[str]:
    facts = {
        "state": _state_words(item.standing),
        **_last_run_facts(item.last),
        "documents": ", ".join(map(str, item.documents)),
        "result": "below" if item.result_text else "",
    }
    return [f"{item.item_id}  item of the graph {one_line(item.workflow)}", *_fact_lines(facts)]


def _graph_document(item: GraphItem) -> dict[str, Any]:
    return {
        "item": item.item_id,
        "workflow": item.workflow,
        "state": _state_words(item.standing) or None,
        "documents": [str(path) for path in item.documents],
        "last_run": _last_run_document(item.last),
        "result": item.result or None,
    }


def _show_entry(lineage: Lineage, arguments: argparse.Namespace) -> int:
    entries = lineage.entries()
    if arguments.prompt:
        wanted = [entry for entry in entries if entry.kind.startswith("prompt-")][-1:]
    else:
        wanted = [entry for entry in entries if entry.number == arguments.lineage]
    if not wanted:
        known = f"it has {entries[0].number} to {entries[-1].number}" if entries else "it has none"
        what = "prompt" if arguments.prompt else f"entry {arguments.lineage}"
        raise UsageError(f"{one_line(arguments.item, 60)} has no {what} in its history: {known}.")
    say_document(wanted[0].read())
    return 0


def _gather(
    project_dir: Path, settings: Settings, workflow: Workflow, item_id: str, lineage: Lineage
) -> _Item | None:
    """None when nothing is known."""
    paths = document_paths(project_dir, settings, workflow.name, item_id)
    path = next((path for path in paths if path.is_file()), None)
    entries = lineage.entries()
    drafts = lineage.entries("draft")
    text = path.read_text(encoding="utf-8", errors="replace") if path else drafts[-1].read() if drafts else ""
    on_branch = _on_branch(project_dir, paths, item_id) if workflow.name == "implementation" and not path else None
    if on_branch is not None:
        text = on_branch[1]
    last = last_run(project_dir, _RUN_BY.get(workflow.name, (workflow.name,)), item_id)
    state = _state_words(store_for(project_dir).peek(ItemRef(workflow.name, item_id)))
    is_code = workflow.name == "implementation"
    code_status = _code_status(project_dir, item_id) if is_code else ""
    if not text and not entries and last is None and not state and not code_status:
        return None
    return _Item(
        label=label_of(workflow.name, item_id),
        path=path,
        branch_place=on_branch[0] if on_branch else "",
        text=text,
        status=code_status or _status_words(text),
        approval="" if is_code else _approval_words(text),
        state=state,
        findings=_findings(workflow.name, text, paths[0], project_dir) if text else (),
        next_step=_next_step(project_dir, settings, workflow, item_id, text if path else "", state),
        entries=tuple(entries),
        lineage_dir=lineage.directory,
        last=last,
    )


def _next_step(
    project_dir: Path, settings: Settings, workflow: Workflow, item_id: str, document: str, state: str
) -> str:
    """What a person does about it: decide, or have the next thing made of it."""
    label = label_of(workflow.name, item_id)
    if state == _AWAITS_REVIEW:
        return f"decide: {Hint.LOOK_AT_REVIEW.line(label=label)}"
    if not document or state or workflow.name not in ("lld", "issue"):
        return ""
    approval = verify_approval(document)
    if not isinstance(approval, Intact) or approval.approval.is_rehearsal:
        return f"decide: {Hint.LOOK_AT_REVIEW.line(label=label)}"
    standing = (
        None if read_record(project_dir, item_id) else review_documents.find(project_dir, settings, workflow, item_id)
    )
    return review_documents.next_step(project_dir, settings, standing) if standing else ""


def _status_words(text: str) -> str:
    """What a document says of itself, unless it says more than is so."""
    status = (parse_lld(text).status or "") if text else ""
    is_approved = isinstance(verify_approval(text), Intact)
    says_so = status.casefold().startswith("approved")
    return f'the document says "{status}", which nobody has approved' if says_so and not is_approved else status


def _code_status(project_dir: Path, item_id: str) -> str:
    """What became of an implementation, as its own record says."""
    if done := read_record(project_dir, item_id):
        gone = "" if has_branch(project_dir, done.branch) else ", a branch that is gone"
        return f"{'rehearsed' if done.is_rehearsal else 'implemented'} on {done.branch}{gone}"
    if tried := read_attempt(project_dir, item_id):
        return f"needs revision on {tried.branch}: {tried.reason}"
    return ""


def _on_branch(project_dir: Path, paths: Sequence[Path], item_id: str) -> tuple[str, str] | None:
    """The report of an implemented design, which is on its branch until that is merged: its place, and its text."""
    record = read_record(project_dir, item_id) or read_attempt(project_dir, item_id)
    if record is None:
        return None
    place = f"{record.branch}:./{paths[0].relative_to(project_dir)}"
    try:
        return place, Git(project_dir).run("show", place).stdout
    except AgentosError:
        return f"{record.branch} (not found here)", ""


def _findings(workflow: str, text: str, path: Path, project_dir: Path) -> tuple[Finding, ...]:
    if workflow == "implementation":
        return ()
    if workflow == "issue":
        return check_issue(parse_issue(text), is_draft=False)
    return check_lld(parse_lld(text, str(path)), repository=FolderPaths(project_dir))


def _approval_words(text: str) -> str:
    match verify_approval(text):
        case Absent():
            return "none"
        case Changed(what=what):
            return f"no longer counts, the document changed: {what}"
        case intact:
            approval = intact.approval
            return f"{approval.approved_at}, drafted by {approval.drafter}, reviewed by {approval.reviewer}"


def _state_words(seen: Standing | None) -> str:
    if seen is None:
        return ""
    if seen.questions is not None:
        return _AWAITS_REVIEW if seen.answer is None else "answered, continues with the next run"
    return f"unfinished, resumes after {seen.resumes_after}" if seen.resumes_after else "unfinished"


def _lines(item: _Item) -> list[str]:
    nothing = "no document yet; below is the latest draft" if item.text else "no document yet"
    lines = [f"{item.label}  {item.path or item.branch_place or nothing}"]
    facts = {
        "status": item.status,
        "approval": item.approval,
        "state": item.state,
        "next": item.next_step,
        **_last_run_facts(item.last),
        "history": f"{item.lineage_dir} ({len(item.entries)} entries)" if item.entries else "",
    }
    lines += _fact_lines(facts)
    lines += [f"    {entry.number:03d} {entry.kind}" for entry in item.entries]
    lines += [f"  line {finding.line}: {one_line(finding.words())}" for finding in item.findings]
    return lines


def _fact_lines(facts: Mapping[str, str]) -> list[str]:
    return [f"  {name + ':':<9} {one_line(text)}" for name, text in facts.items() if text]


def _last_run_facts(last: LastRun | None) -> dict[str, str]:
    if last is None:
        return {}
    reason = f": {last.item.reason}" if last.item.reason else ""
    log = str(last.run_dir / last.item.log) if last.item.log else ""
    return {"last run": f"{last.run_dir.name}, {outcome_words(last.item.outcome)}{reason}", "log": log}


def _last_run_document(last: LastRun | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {
        "run": last.run_dir.name,
        "outcome": last.item.outcome.name,
        "reason": last.item.reason,
        "log": str(last.run_dir / last.item.log) if last.item.log else None,
    }


def _document(item: _Item) -> dict[str, Any]:
    return {
        "item": item.label,
        "path": str(item.path) if item.path else item.branch_place or None,
        "status": item.status or None,
        "approval": item.approval or None,
        "state": item.state or None,
        "next": item.next_step or None,
        "findings": [
            {"rule": f.rule, "severity": f.severity.value, "line": f.line, "text": f.words()} for f in item.findings
        ],
        "lineage": [{"number": e.number, "kind": e.kind, "path": str(e.path)} for e in item.entries],
        "last_run": _last_run_document(item.last),
        "document": item.text,
    }
