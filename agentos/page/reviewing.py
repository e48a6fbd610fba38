"""What an item asks a person, as the page shows it, and the answer: by the code that `agentos review` uses."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from agentos.dashboard.needs import action
from agentos.documents.approval import Changed, Intact, document_hash, verify_approval
from agentos.documents.findings import errors
from agentos.documents.unapproved import bare, open_findings, read_unapproved
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import AgentosError, UsageError
from agentos.hints import Hint, Place
from agentos.page.documents import ItemPlace, is_inside, read, safe_text
from agentos.page.mask import Mask
from agentos.page.refused import Refused
from agentos.text.words import one_line
from agentos.workflows.awaiting_review import Waiting, approve_document, give_answer, waiting_item
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.approving import StandingDocument, find_standing
from agentos.workflows.registry import COMMANDS, WORKFLOWS, label_of

APPROVE: Final = action("approve", "Approve", primary=True)
REVISE: Final = action("revise", "Revise…")
MOST_CHARACTERS: Final = 400_000
"""A document beyond this is shown as text, cut."""
_LONGEST_ANSWER: Final = 20_000
_DRAFTED: Final = ("lld", "issue")


def rendered(text: str, mask: Mask) -> dict[str, Any]:
    """A document for the page: HTML, without marks of our own, and all of its text."""
    shown = mask.text(safe_text(text))
    is_cut = len(shown) > MOST_CHARACTERS
    return {"html": None if is_cut else _as_html(bare(shown)), "text": shown[:MOST_CHARACTERS], "is_cut": is_cut}


def _as_html(text: str) -> str | None:
    """None where the page's parts are not installed: a report can be made there too, and shows the text."""
    try:
        from agentos.page.markdown import as_html  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return as_html(text)


def review_of(place: ItemPlace, mask: Mask, *, may_control: bool) -> dict[str, Any] | None:
    """What waits for a person; None when nothing does."""
    try:
        waiting = waiting_item(place.project_dir, ItemRef(place.workflow, place.item_id))
    except AgentosError:
        return None  # Where its checkpoint would be cannot be told: nobody can answer it.
    if waiting is not None:
        return _gate(place, waiting, mask, may_control=may_control)
    standing = _standing(place)
    return None if standing is None else _document(place, standing, mask, may_control=may_control)


def approval_of(place: ItemPlace) -> dict[str, Any] | None:
    """The approval that the item's document carries, and whether it still counts."""
    stage = next((stage for stage in place.stages if stage in _DRAFTED), None)
    document = read(place, f"place:{stage}") if stage else None
    if document is None:
        return None
    found = verify_approval(document.text)
    match found:
        case Intact(approval=approval):
            words = f"{approval.word.lower()} by {approval.reviewer} at {approval.approved_at}"
            kind = "warn" if approval.is_rehearsal else "good"
            by, at, hashed = approval.reviewer, approval.approved_at, approval.document_hash
        case Changed(what=what):
            words, kind = f"no longer counts, the document changed: {what}", "bad"
            by = at = ""
            hashed = document_hash(document.text)
        case _:
            words, kind, by, at, hashed = "not approved", "dim", "", "", document_hash(document.text)
    return {
        "words": one_line(words),
        "hash": one_line(hashed, longest=100),
        "by": one_line(by, longest=100),
        "at": one_line(at, longest=40),
        "kind": kind,
    }


def take_answer(place: ItemPlace, answer: str, text: str, seen: str) -> dict[str, Any]:
    """Store a person's answer. Raises Refused when it is not for what they saw, or cannot be taken."""
    if answer not in ("approve", "revise"):
        raise Refused(400, "The answer must be approve or revise.")
    if answer == "revise" and not text.strip():
        raise Refused(400, "Say what to change.")
    try:
        waiting = waiting_item(place.project_dir, ItemRef(place.workflow, place.item_id))
        if waiting is not None:
            return _answer_gate(place, waiting, answer, text.strip()[:_LONGEST_ANSWER], seen)
        return _approve_document(place, answer, seen)
    except AgentosError as error:
        raise Refused(409, one_line(str(error), longest=1000)) from None


def _answer_gate(place: ItemPlace, waiting: Waiting, answer: str, text: str, seen: str) -> dict[str, Any]:
    if seen != _mark(waiting.questions):
        raise Refused(409, f"{waiting.label} now asks a different question.", "Look again before you answer.")
    if not (waiting.is_gate if answer == "revise" else waiting.takes_approval):
        command = _hint(place, Hint.ANSWER, waiting.label)
        raise Refused(409, f"{waiting.label} asks for another answer than that.", "Answer it with:", command)
    given = {"action": "approve"} if answer == "approve" else {"action": "revise", "text": text}
    give_answer(place.project_dir, waiting, given)
    words = "approved" if answer == "approve" else "to be revised"
    return {"ok": True, "words": f"{words}; the next run continues it", "command": _continue(place)}


def _approve_document(place: ItemPlace, answer: str, seen: str) -> dict[str, Any]:
    standing = _standing(place)
    if standing is None:
        raise Refused(409, f"{label_of(place.workflow, place.item_id)} does not wait for an answer.")
    if answer == "revise":
        command = _hint(place, Hint.REVISE, standing.label)
        raise Refused(409, "A revision of a document in its place is a run of its own.", "Start it with:", command)
    if seen != document_hash(standing.text):
        raise Refused(409, f"{standing.label} has changed in the meantime.", "Look again before you approve it.")
    given = approve_document(place.project_dir, place.settings, standing)
    return {"ok": True, "words": f"approved as it stands, by {one_line(given.by, longest=80)}", "command": ""}


def _gate(place: ItemPlace, waiting: Waiting, mask: Mask, *, may_control: bool) -> dict[str, Any]:
    question = waiting.question
    document = question.get("document")
    gate = f"{one_line(str(question['gate']), 20)} gate" if waiting.is_gate else "asks"
    actions = [APPROVE] if may_control and waiting.takes_approval else []
    actions += [REVISE] if may_control and waiting.is_gate else []
    hint = Hint.LOOK_AT_REVIEW if waiting.takes_approval else Hint.ANSWER
    answered = "" if waiting.answer is None else "; answered already, a new answer replaces it"
    return {
        "waits": True,
        "text": f"{gate}, round {one_line(str(question.get('round', 1)), 10)}{answered}",
        "findings": [mask.text(one_line(str(each), longest=2000)) for each in question.get("findings", ())],
        "verdict": one_line(str(question.get("verdict", "")), longest=60),
        "document": rendered(document, mask) if isinstance(document, str) else None,
        "questions": [] if waiting.is_gate else [_question(each, mask) for each in waiting.questions],
        "seen": _mark(waiting.questions),
        "actions": actions,
        "command": _hint(place, hint, waiting.label),
    }


def _question(question: Any, mask: Mask) -> str:
    text = question if isinstance(question, str) else json.dumps(question, default=str, ensure_ascii=False)
    return mask.text(one_line(text, longest=4000))


def _document(place: ItemPlace, standing: StandingDocument, mask: Mask, *, may_control: bool) -> dict[str, Any]:
    """A document that is not approved as it stands: a person may take it once it passes the check."""
    text = bare(standing.text)
    found = check_document(standing.workflow.name, text, standing.item_id, place.project_dir)
    mark = read_unapproved(standing.text)
    why = f"needs revision: {one_line(mark.reason)}" if mark else "is not approved as it stands"
    can_be_approved = may_control and not errors(found)
    return {
        "waits": False,
        "text": f"{standing.path.relative_to(place.project_dir)} {why}",
        "findings": [
            *(mask.text(one_line(each, longest=2000)) for each in open_findings(standing.text)),
            *(mask.text(one_line(f"line {each.line}: {each.words()}", longest=2000)) for each in found),
        ],
        "verdict": "",
        "document": rendered(standing.text, mask),
        "questions": [],
        "seen": document_hash(standing.text),
        "actions": [APPROVE] if can_be_approved else [],
        "command": _hint(place, Hint.LOOK_AT_REVIEW, standing.label),
    }


def _standing(place: ItemPlace) -> StandingDocument | None:
    """The item's document in its place, where nobody has approved it as it is."""
    stage = next((stage for stage in place.stages if stage in _DRAFTED), None)
    if stage is None:
        return None
    try:
        standing = find_standing(place.project_dir, place.settings, WORKFLOWS[stage], place.item_id)
    except UsageError:
        return None
    if standing is None or not is_inside(standing.path, (place.project_dir,)):
        return None
    is_settled = standing.is_approved or isinstance(verify_approval(standing.text), Intact)
    return None if is_settled else standing


def _mark(questions: tuple[Any, ...]) -> str:
    """What a person saw when they answered."""
    text = json.dumps(questions, default=str, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _hint(place: ItemPlace, hint: Hint, label: str) -> str:
    return hint.line(label=label, place=Place(project=str(place.project_dir)))


def _continue(place: ItemPlace) -> str:
    command = COMMANDS.get(place.workflow)
    if command is None:
        return ""
    where = Place(project=str(place.project_dir))
    return Hint.CONTINUE.line(workflow=command, item=place.item_id, place=where)
