"""The steps every document workflow takes, as functions of the state. Models are called from here only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.documents.findings import Finding, errors
from agentos.documents.markdown import parse
from agentos.documents.revision import RevisionError, apply_patch, is_same_draft
from agentos.documents.verdict import (
    InvalidReview,
    Review,
    Tier,
    Verdict,
    parse_review,
    review_data,
    review_model,
    same_findings,
    stored_review,
    unverified,
)
from agentos.llm import InvalidOutputError, ModelRequestError, ProviderUnavailableError
from agentos.workflows.context import Context, History
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.prompts import as_data

PERSON = "a person"
_MOST_FINDINGS = 40


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
        return context.history(f"{self.label}-{state['item_id']}", state.get("lineage_number", 0))


def design(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingState:
    """The first draft, or a revision of the sections that somebody found fault with."""
    history = kind.history(state, context)
    drafter = context.settings.models.drafter
    if "draft" not in state:
        prompt = _prompt(kind, context, history, "design", _subject(state))
        reply = context.generate(prompt, model=drafter, task=f"{kind.workflow}.draft", data=_plain(state, context))
        draft = _without_fence(reply.text)
    else:
        draft = _revised(kind, state, context, history)
    history.record("draft", draft)
    return DraftingState(
        draft=draft,
        previous_draft=state.get("draft", ""),
        round=state.get("round", 0) + 1,
        drafter=drafter,
        lineage_number=history.number,
    )


def _prompt(kind: DocumentKind, context: Context, history: History, name: str, values: Mapping[str, str]) -> str:
    text = context.prompt(kind.workflow, name, **values)
    history.record(f"prompt-{name}", text)
    return text


def _revised(kind: DocumentKind, state: DraftingState, context: Context, history: History) -> str:
    """The draft with a model's patch applied. A patch that does not fit is sent back once, then left."""
    draft = state["draft"]
    complaints = "\n".join(complaints_of(state))
    values = {"draft": as_data(draft, "the draft"), "complaints": as_data(complaints, "what to change")}
    prompt = _prompt(kind, context, history, "revise", _subject(state) | values)
    data = {**_plain(state, context), "complaints": complaints_of(state)}
    messages = [{"role": "user", "content": prompt}]
    for _ in range(2):
        reply = context.generate(
            messages,
            model=context.settings.models.drafter,
            output_type=_patch_model(),
            task=f"{kind.workflow}.revise",
            data=data,
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


def validate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingState:
    """What can be found without a model."""
    previous = parse(state["previous_draft"]) if state.get("previous_draft") else None
    found = errors(kind.check(state, context.project_dir, previous))
    words = [finding.words() for finding in found[:_MOST_FINDINGS]]
    is_unchanged = previous is not None and is_same_draft(state["previous_draft"], state["draft"])
    return DraftingState(errors=words, previous_errors=state.get("errors", []), is_unchanged=is_unchanged)


def review(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingState:
    """A typed verdict. A reviewer that fails or talks nonsense leaves the draft unverified, never approved."""
    history = kind.history(state, context)
    reviewer = context.settings.models.reviewer
    values = _subject(state) | {"draft": as_data(state["draft"], "the draft")}
    prompt = _prompt(kind, context, history, "review", values)
    try:
        reply = context.generate(
            prompt,
            model=reviewer,
            output_type=review_model(),
            task=f"{kind.workflow}.review",
            data=_plain(state, context),
        )
        verdict = parse_review(reply.output.model_dump(mode="json"))
    except (InvalidOutputError, InvalidReview, ModelRequestError, ProviderUnavailableError) as error:
        verdict = unverified(str(error))
    data = review_data(verdict)
    history.record("verdict", json.dumps(data, indent=1))
    entry = {
        "round": state["round"],
        "verdict": verdict.verdict.value,
        "reviewer": reviewer,
        "summary": verdict.summary or "; ".join(finding.text for finding in verdict.findings[:3]),
    }
    return DraftingState(
        review=data,
        previous_review=state.get("review", {}),
        log=[*state.get("log", []), entry],
        wishes="",
        reviewer=reviewer,
        lineage_number=history.number,
    )


def take_answer(
    kind: DocumentKind, state: DraftingState, context: Context, answer: Mapping[str, Any]
) -> DraftingState:
    """What a person said at a gate, kept with the item's history. Wishes lead to a revision."""
    wishes = str(answer.get("text", "")).strip() if answer.get("action") == "revise" else ""
    history = kind.history(state, context)
    history.record("answer", f"revise: {wishes}\n" if wishes else "approve\n")
    entry = {
        "round": state["round"],
        "verdict": Verdict.REVISE.value if wishes else Verdict.APPROVE.value,
        "reviewer": PERSON,
        "summary": wishes or "Approved at the gate.",
    }
    return DraftingState(wishes=wishes, log=[*state.get("log", []), entry], lineage_number=history.number)


def after_check(state: DraftingState, max_rounds: int) -> str:
    """`review`, `design` again, or `finalize` when more rounds would not help."""
    if state["is_unchanged"]:
        return "finalize"
    if not state["errors"]:
        return "review"
    return "finalize" if _is_stuck_on_errors(state, max_rounds) else "design"


def after_review(state: DraftingState, max_rounds: int) -> str:
    """`finalize` when approved or stuck, `design` when a revision may help."""
    verdict = stored_review(state["review"])
    if verdict.is_approval or verdict.verdict in (Verdict.DISCUSS, Verdict.UNVERIFIED):
        return "finalize"
    return "finalize" if _is_stuck_on_review(state, max_rounds) else "design"


def _is_stuck_on_errors(state: DraftingState, max_rounds: int) -> bool:
    return state["round"] >= max_rounds or (
        state["round"] > 1 and bool(state["errors"]) and state["errors"] == state.get("previous_errors")
    )


def _is_stuck_on_review(state: DraftingState, max_rounds: int) -> bool:
    if state["round"] >= max_rounds:
        return True
    previous = state.get("previous_review")
    return bool(previous) and same_findings(stored_review(previous or {}), stored_review(state["review"]))


def conclusion(state: DraftingState, max_rounds: int) -> tuple[str, str]:
    """The outcome and, when it is not an approval, why."""
    if state.get("is_unchanged"):
        return "needs_revision", f"the revision changed nothing: {_without_mark(complaints_of(state))}"
    if state.get("errors"):
        why = "the check still fails" if state["round"] < max_rounds else f"the check fails after {max_rounds} rounds"
        return "needs_revision", f"{why}: {state['errors'][0]}"
    if state.get("decision") == "approve":
        return "approved", ""
    verdict = stored_review(state["review"])
    if verdict.is_approval:
        return "approved", ""
    first = _weightiest(verdict)
    match verdict.verdict:
        case Verdict.UNVERIFIED:
            return "needs_revision", f"the review could not be verified: {verdict.summary or first}"
        case Verdict.DISCUSS:
            return "needs_revision", f"the reviewer wants to discuss: {first or verdict.summary}"
        case _:
            limit = f"not approved after {state['round']} rounds"
            stuck = "two rounds found the same" if state["round"] < max_rounds else limit
            return "needs_revision", f"{stuck}: {first or verdict.summary}"


def complaints_of(state: DraftingState) -> list[str]:
    """What the next revision has to answer: a person's wishes, the check's errors, the reviewer's findings."""
    complaints = [f"[{PERSON}] {state['wishes']}"] if state.get("wishes") else []
    complaints += [f"[check] {error}" for error in state.get("errors", [])]
    if state.get("review") and not state.get("errors"):
        verdict = stored_review(state["review"])
        complaints += [f"[{f.tier.value}] {f.section}: {f.text}" for f in verdict.findings]
        complaints += [f"[answer] {answer.question}: {answer.answer}" for answer in verdict.answers]
    return complaints


def _without_mark(complaints: list[str]) -> str:
    return complaints[0].partition("] ")[2] if complaints else "no complaint is left"


def _weightiest(verdict: Review) -> str:
    order = [Tier.BLOCKING, Tier.HIGH, Tier.SUGGESTION]
    ranked = sorted(verdict.findings, key=lambda finding: order.index(finding.tier))
    return ranked[0].text if ranked else ""


def _subject(state: DraftingState) -> dict[str, str]:
    return {
        "item_id": state["item_id"],
        "title": " ".join(state["title"].split()),
        "source": as_data(state["source_text"], "the source"),
        "context": state.get("context", ""),
    }


def _plain(state: DraftingState, context: Context) -> dict[str, Any]:
    return {"cwd": str(context.project_dir), **state}


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
