"""The nodes every document workflow has, and the decisions between them. Models are called from here only."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.documents.approval import ReviewLogEntry, document_hash
from agentos.documents.check import asked
from agentos.documents.findings import Finding, errors
from agentos.documents.markdown import parse
from agentos.documents.revision import RevisionError, apply_patch, is_same_text
from agentos.documents.unapproved import PERSON, Obstacle, author_of, bare, is_a_persons
from agentos.documents.verdict import (
    InvalidReview,
    Review,
    Tier,
    Verdict,
    parse_review,
    review_data,
    review_model,
    same_findings,
    unverified,
)
from agentos.llm import InvalidOutputError
from agentos.workflows.context import Context, History
from agentos.workflows.drafting.state import (
    APPROVED,
    NEEDS_REVISION,
    Check,
    Decision,
    Draft,
    DraftingState,
    DraftingUpdate,
    Reviewed,
)
from agentos.workflows.prompts import as_data

_MOST_FINDINGS = 40
_GRAVEST_FIRST = (Tier.BLOCKING, Tier.HIGH, Tier.SUGGESTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """What tells one document workflow from another."""

    workflow: str
    """The package's name under `agentos.workflows`, and the `{type}` of file names."""
    label: str
    """`LLD` makes `LLD-42`."""
    check: Callable[[DraftingState, Path, Any], tuple[Finding, ...]]
    """Findings of a draft: state, project, and the previous draft's document or None."""

    def history(self, state: DraftingState, context: Context) -> History:
        return context.history(f"{self.label}-{state['item_id']}", state["history"])


def begin(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    """What stands in the document's place now; and what to begin with, when that is it."""
    replaces = hash_of(context.document_path(kind.workflow, state["item_id"]))
    standing, wishes = state.get("standing", ""), state.get("wishes", "")
    if not standing:
        return DraftingUpdate(replaces=replaces)
    kind.history(state, context).record("standing", standing)
    is_persons = is_a_persons(standing)
    draft = Draft(
        bare(standing),
        round=1,
        drafter=author_of(standing),
        is_persons=is_persons,
        is_fixed=is_persons and not wishes,
    )
    update = DraftingUpdate(replaces=replaces, draft=draft)
    if wishes:
        entry = ReviewLogEntry(round=1, verdict=Verdict.REVISE.value, reviewer=PERSON, summary=wishes)
        update = {**update, "decision": Decision(wishes), "log": [entry]}
    return update


def shown_origin(state: DraftingState, context: Context) -> str:
    """Where a person finds what the document is written from."""
    origin = Path(state["origin"])
    is_inside = origin.is_relative_to(context.project_dir)
    return str(origin.relative_to(context.project_dir)) if is_inside else state["origin"]


def hash_of(path: Path) -> str:
    """Of a document in its place; empty when there is none."""
    try:
        return document_hash(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""


def design(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    """The first draft, or a revision of the sections that somebody found fault with."""
    history = kind.history(state, context)
    last = state["draft"]
    text = _revised(kind, state, context, history) if last.round else _first(kind, state, context, history)
    history.record("draft", text)
    drafter = context.settings.models.drafter
    draft = Draft(
        text,
        previous=last.text,
        round=last.round + 1,
        drafter=_joined(last.drafter, drafter) if last.is_persons else drafter,
        is_persons=last.is_persons,
    )
    return DraftingUpdate(draft=draft, history=history.number)


def _joined(author: str, drafter: str) -> str:
    return author if author.endswith(f"revised by {drafter}") else f"{author}, revised by {drafter}"


def _first(kind: DocumentKind, state: DraftingState, context: Context, history: History) -> str:
    prompt = _prompt(kind, context, history, "design", _subject(state))
    reply = context.generate(
        prompt, model=context.settings.models.drafter, task=f"{kind.workflow}.draft", data=_data(state, context)
    )
    return _without_fence(reply.text)


def _prompt(kind: DocumentKind, context: Context, history: History, name: str, values: Mapping[str, str]) -> str:
    text = context.prompt(kind.workflow, name, **values)
    history.record(f"prompt-{name}", text)
    return text


def _revised(kind: DocumentKind, state: DraftingState, context: Context, history: History) -> str:
    """The draft with a model's patch applied. A patch that does not fit is sent back once, then left."""
    draft = state["draft"].text
    complaints = as_data("\n".join(complaints_of(state)), "what to change")
    values = _subject(state) | {"draft": as_data(draft, "the draft"), "complaints": complaints}
    messages = [{"role": "user", "content": _prompt(kind, context, history, "revise", values)}]
    for _ in range(2):
        reply = context.generate(
            messages,
            model=context.settings.models.drafter,
            output_type=_patch_model(),
            task=f"{kind.workflow}.revise",
            data=_data(state, context),
        )
        patch = {section.heading: section.text for section in reply.output.sections}
        try:
            return apply_patch(draft, patch).text
        except RevisionError as error:
            messages += [
                {"role": "assistant", "content": reply.text},
                {"role": "user", "content": f"The patch cannot be applied: {error} Send the whole patch again."},
            ]
    return draft


def validate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    """What can be found without a model."""
    draft = state["draft"]
    previous = parse(draft.previous) if draft.previous else None
    found = errors(kind.check(state, context.project_dir, previous))
    words = tuple(finding.words() for finding in found[:_MOST_FINDINGS])
    check = Check(
        errors=words,
        is_repeated=bool(words) and words == state["check"].errors,
        is_unchanged=previous is not None and is_same_text(draft.previous, draft.text),
        questions=() if draft.is_persons else asked(found),
    )
    return DraftingUpdate(check=check)


def review(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    """A typed verdict. A reviewer that talks nonsense leaves the draft unverified, never approved.

    One that is out of reach, or refuses the request, says nothing of the draft: the item fails here, and a later run
    continues from here.
    """
    history = kind.history(state, context)
    reviewer = context.settings.models.reviewer
    found = _review(kind, state, context, history)
    history.record("verdict", json.dumps(review_data(found), indent=1))
    last = state["reviewed"].review
    entry = ReviewLogEntry(
        round=state["draft"].round,
        verdict=found.verdict.value,
        reviewer=reviewer,
        summary=found.summary or "; ".join(finding.text for finding in found.findings[:3]),
    )
    return DraftingUpdate(
        reviewed=Reviewed(found, is_repeated=last is not None and same_findings(last, found), reviewer=reviewer),
        log=[entry],
        decision=Decision(),
        history=history.number,
    )


def _review(kind: DocumentKind, state: DraftingState, context: Context, history: History) -> Review:
    values = _subject(state) | {"draft": as_data(state["draft"].text, "the draft")}
    prompt = _prompt(kind, context, history, "review", values)
    try:
        reply = context.generate(
            prompt,
            model=context.settings.models.reviewer,
            output_type=review_model(),
            task=f"{kind.workflow}.review",
            data=_data(state, context),
        )
        return parse_review(reply.output.model_dump(mode="json"))
    except (InvalidOutputError, InvalidReview) as error:
        return unverified(str(error))


def take_answer(
    kind: DocumentKind, state: DraftingState, context: Context, answer: Mapping[str, Any], *, is_final: bool
) -> DraftingUpdate:
    """What a person said at a gate, kept with the item's history. Wishes lead to a revision."""
    wishes = str(answer.get("text", "")).strip() if answer.get("action") == "revise" else ""
    history = kind.history(state, context)
    history.record("answer", f"revise: {wishes}\n" if wishes else "approve\n")
    entry = ReviewLogEntry(
        round=state["draft"].round,
        verdict=Verdict.REVISE.value if wishes else Verdict.APPROVE.value,
        reviewer=PERSON,
        summary=wishes or "Approved at the gate.",
    )
    decision = Decision(wishes, is_approval=is_final and not wishes)
    return DraftingUpdate(decision=decision, log=[entry], history=history.number)


def after_check(state: DraftingState, max_rounds: int) -> str:
    """`review`, `design` again, or `finalize` when more rounds would not help."""
    check = state["check"]
    if check.is_unchanged:
        return "finalize"
    if not check.errors:
        return "review"
    is_over = check.is_repeated or state["draft"].is_fixed or state["draft"].round >= max_rounds
    return "finalize" if is_over else "design"


def after_review(state: DraftingState, max_rounds: int) -> str:
    """`finalize` when approved or stuck, `design` when a revision may help."""
    may_help = _last_review(state).verdict is Verdict.REVISE
    is_over = state["reviewed"].is_repeated or state["draft"].is_fixed or state["draft"].round >= max_rounds
    return "design" if may_help and not is_over else "finalize"


def _last_review(state: DraftingState) -> Review:
    return state["reviewed"].review or unverified("nobody reviewed it")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a document ends and, when it is not approved, why."""

    outcome: str
    reason: str = ""
    obstacle: Obstacle = Obstacle.FINDINGS


def conclusion(
    state: DraftingState,
    max_rounds: int,
    *,
    questions: Sequence[str] = (),
    answered: Collection[str] = (),
    answer_in: str = "",
) -> Ending:
    """`questions` are those that the source leaves open, `answered` those that it answers.

    `answer_in` is where a person answers. A draft that only repeats what is open is not what is wrong.
    """
    check = state["check"]
    is_approved = state["decision"].is_approval or _last_review(state).is_approval
    if is_approved and not check.errors and not check.is_unchanged:
        return Ending(APPROVED)
    if _last_review(state).verdict is Verdict.UNVERIFIED and state["reviewed"].review and not check.errors:
        found = _last_review(state)
        reason = f"the review could not be verified: {found.summary or _weightiest(found)}"
        return Ending(NEEDS_REVISION, reason, Obstacle.REVIEWER)
    if questions and (check.questions or not check.errors):
        return Ending(NEEDS_REVISION, _left_open_words(questions, answer_in), Obstacle.QUESTIONS)
    if check.questions:
        return _asked_by_draft(check.questions, answered, answer_in)
    return Ending(NEEDS_REVISION, _why_not(state, max_rounds))


def _left_open_words(questions: Sequence[str], answer_in: str) -> str:
    """The place first: a line may be cut."""
    return f"{answer_in} leaves {_counted(questions)} open; answer there: {' / '.join(questions)}"


def _asked_by_draft(questions: Sequence[str], answered: Collection[str], answer_in: str) -> Ending:
    """The source leaves none of them open. What it answers is asked by the draft's mistake alone."""
    known = {question.casefold() for question in answered}
    new = [question for question in questions if question.casefold() not in known]
    if new:
        words = f"the draft asks {_counted(new)}; answer in {answer_in}: {' / '.join(new)}"
        return Ending(NEEDS_REVISION, words, Obstacle.QUESTIONS)
    return Ending(NEEDS_REVISION, f"the draft asks again what {answer_in} answers: {' / '.join(questions)}")


def _counted(questions: Sequence[str]) -> str:
    return "a question" if len(questions) == 1 else f"{len(questions)} questions"


def _why_not(state: DraftingState, max_rounds: int) -> str:
    check = state["check"]
    if check.is_unchanged:
        return f"the revision changed nothing: {_without_mark(complaints_of(state))}"
    is_last = state["draft"].round >= max_rounds and not state["draft"].is_fixed
    if check.errors:
        why = f"the check fails after {max_rounds} rounds" if is_last else "the check still fails"
        return f"{'the check fails' if state['draft'].is_fixed else why}: {check.errors[0]}"
    found = _last_review(state)
    first = _weightiest(found) or found.summary
    if found.verdict is Verdict.DISCUSS:
        return f"the reviewer wants to discuss: {first}"
    if state["draft"].is_fixed:
        return f"the reviewer wants changes: {first}"
    stuck = f"not approved after {state['draft'].round} rounds" if is_last else "two rounds found the same"
    return f"{stuck}: {first}"


def complaints_of(state: DraftingState) -> list[str]:
    """What the next revision has to answer: a person's wishes, the check's errors, the reviewer's findings."""
    wishes, found_errors, found = state["decision"].wishes, state["check"].errors, state["reviewed"].review
    complaints = [f"[{PERSON}] {wishes}"] if wishes else []
    complaints += [f"[check] {error}" for error in found_errors]
    if found and not found_errors:
        complaints += [f"[{f.tier.value}] {f.section}: {f.text}" for f in found.findings]
        complaints += [f"[answer] {answer.question}: {answer.answer}" for answer in found.answers]
    return complaints


def _without_mark(complaints: list[str]) -> str:
    return complaints[0].partition("] ")[2] if complaints else "no complaint is left"


def _weightiest(found: Review) -> str:
    ranked = sorted(found.findings, key=lambda finding: _GRAVEST_FIRST.index(finding.tier))
    return ranked[0].text if ranked else ""


def _subject(state: DraftingState) -> dict[str, str]:
    return {
        "item_id": state["item_id"],
        "title": " ".join(state["title"].split()),
        "source": as_data(state["source_text"], "the source"),
        "context": state["digest"],
    }


def _data(state: DraftingState, context: Context) -> dict[str, Any]:
    """What the offline model knows: it answers from data, not from the prompt."""
    return {
        "cwd": str(context.project_dir),
        **{name: state[name] for name in ("item_id", "title", "source_text")},
        "draft": state["draft"].text,
        "wishes": state["decision"].wishes,
        "complaints": complaints_of(state),
    }


def _without_fence(text: str) -> str:
    """Models like to wrap a whole document in one code fence."""
    stripped = text.strip()
    lines = stripped.splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        inner = lines[1:-1]
        if not any(line.startswith("```") for line in inner[:1]):
            stripped = "\n".join(inner)
    return stripped.strip() + "\n"


def _patch_model() -> type[Any]:
    # Pydantic loads with the SDKs; a worker that only drafts never needs it.
    from pydantic import BaseModel, Field  # noqa: PLC0415

    class PatchedSection(BaseModel):
        heading: str = Field(description="the heading of the section to replace, as it stands in the draft")
        text: str = Field(description="the section's new text, without its heading")

    class Patch(BaseModel):
        sections: list[PatchedSection]
        note: str = ""

    return Patch
