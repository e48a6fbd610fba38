"""The end of a document's way: approved with its log and hash, or marked as in need of revision, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agentos.clock import stamp
from agentos.documents.approval import ApprovalInfo, stamp_approval, with_status
from agentos.documents.issue import parse_issue
from agentos.documents.unapproved import PERSON, Unapproved, stamp_unapproved
from agentos.errors import UndecidedError
from agentos.hints import Hint
from agentos.workflows import model_options
from agentos.workflows.context import Context
from agentos.workflows.drafting import nodes
from agentos.workflows.drafting.nodes import DocumentKind, Ending
from agentos.workflows.drafting.state import APPROVED, REHEARSED, DraftingState, DraftingUpdate

REVISION_STATUS = "Needs revision"


class DocumentChanged(UndecidedError):
    """Somebody wrote into the document's place while the item was on its way."""


def finish(
    kind: DocumentKind, state: DraftingState, context: Context, text_for: Callable[[str], str]
) -> DraftingUpdate:
    """Conclude, and write the document where the coordinator puts it in place when the item ends.

    `text_for` makes the document's text of an outcome.
    """
    ending = _ending(state, context)
    if ending.outcome == APPROVED and _approval(state, context).is_rehearsal:
        ending = replace(ending, outcome=REHEARSED, reason="the offline model, which reads nothing, approved it")
    text = _concluded(state, context, ending, text_for(ending.outcome))
    path = context.document_path(kind.workflow, state["item_id"])
    _refuse_changed(kind, state, context, path)
    history = kind.history(state, context)
    history.keep_replaced(path)
    history.record("final", text)
    context.write_document(path, text)
    return DraftingUpdate(document=text, outcome=ending.outcome, reason=ending.reason, history=history.number)


def _ending(state: DraftingState, context: Context) -> Ending:
    asked = parse_issue(state["source_text"]).open_questions
    return nodes.conclusion(
        state,
        context.settings.limits.max_rounds,
        questions=[question.text for question in asked if not question.resolved],
        answered=[question.text for question in asked if question.resolved],
        answer_in=nodes.shown_origin(state, context),
    )


def _concluded(state: DraftingState, context: Context, ending: Ending, text: str) -> str:
    """`text` with its approval, or with the findings that stand against it."""
    if ending.outcome in (APPROVED, REHEARSED):
        return stamp_approval(text, _approval(state, context))
    draft = state["draft"]
    mark = Unapproved(
        state["source_hash"], ending.obstacle, ending.reason, drafter=draft.drafter, is_persons=draft.is_persons
    )
    return stamp_unapproved(with_status(text, REVISION_STATUS), mark, nodes.complaints_of(state))


def _refuse_changed(kind: DocumentKind, state: DraftingState, context: Context, path: Path) -> None:
    now = nodes.hash_of(path)
    if now and now != state["replaces"]:
        label, shown = f"{kind.label}-{state['item_id']}", path.relative_to(context.project_dir)
        models = model_options.of_run(context.project_dir, context.settings.models)
        anew = Hint.WRITE_AGAIN.line(workflow=kind.workflow, item=state["item_id"], options=models)
        raise DocumentChanged(
            f"{shown} was written or changed while this run was at work, and is left as it is. "
            f"Approve it (`{Hint.APPROVE.line(label=label)}`), or have it rewritten (`{anew}`)."
        )


def _approval(state: DraftingState, context: Context) -> ApprovalInfo:
    reviewer = state["reviewed"].reviewer
    return ApprovalInfo(
        approved_at=stamp(context.now()),
        drafter=state["draft"].drafter,
        reviewer=f"{reviewer}, then {PERSON}" if state["decision"].is_approval else reviewer,
        issue_hash=state["source_hash"],
        log=tuple(state["log"]),
        person=PERSON if state["draft"].is_persons else "",
    )
