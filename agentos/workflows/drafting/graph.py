"""The shape every document workflow has: load, context, then design, check and review until it is good or stuck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from agentos.errors import AgentosError
from agentos.workflows.context import Context
from agentos.workflows.drafting import nodes
from agentos.workflows.drafting.nodes import DocumentKind
from agentos.workflows.drafting.state import (
    APPROVED,
    Check,
    Decision,
    Draft,
    DraftingInput,
    DraftingState,
    DraftingUpdate,
    Reviewed,
)
from agentos.workflows.node import Step, as_choice, as_node


class UnusableSource(AgentosError):
    """The file that the item comes from cannot be used."""


Node = Step[DraftingState, DraftingUpdate]
_AGAIN_OR_END = {"design": "N1_design", "finalize": "N4_finalize"}


@dataclass(frozen=True, slots=True)
class Publish:
    """A last node for approved documents that also go elsewhere."""

    node: Node
    is_wanted: Callable[[Context], bool]


def build(kind: DocumentKind, *, load: Node, digest: Node, finalize: Node, publish: Publish | None = None) -> Any:
    """The graph of a document workflow. Gates are nodes of their own, passed only where a person decides.

    A document that `load` finds approved already goes to `publish` at once.
    """
    graph: Any = StateGraph(DraftingState, input_schema=DraftingInput)

    def add(name: str, node: Node) -> None:
        graph.add_node(name, as_node(DraftingState, kind.workflow, name, node))

    def choose(after: str, choice: Callable[[DraftingState, Context], str], targets: list[str]) -> None:
        graph.add_conditional_edges(after, as_choice(DraftingState, choice), targets)

    add("N0_load", partial(_begin, kind, load))
    add("N0b_context", digest)
    add("N1_design", partial(nodes.design, kind))
    add("N2_validate", partial(nodes.validate, kind))
    add("G1_draft_gate", partial(_draft_gate, kind))
    add("N3_review", partial(nodes.review, kind))
    add("G2_verdict_gate", partial(_verdict_gate, kind))
    add("N4_finalize", finalize)
    graph.add_edge(START, "N0_load")
    choose("N0b_context", _after_context, ["N1_design", "N2_validate"])
    graph.add_edge("N1_design", "N2_validate")
    choose("N2_validate", _after_check, ["N1_design", "G1_draft_gate", "N3_review", "N4_finalize"])
    choose("G1_draft_gate", _after_draft_gate, ["N1_design", "N3_review"])
    choose("N3_review", _after_review, ["N1_design", "G2_verdict_gate", "N4_finalize"])
    choose("G2_verdict_gate", _after_verdict_gate, ["N1_design", "N4_finalize"])
    if publish is None:
        graph.add_edge("N0_load", "N0b_context")
        graph.add_edge("N4_finalize", END)
    else:
        add("N5_publish", publish.node)
        choose("N0_load", _after_load, ["N0b_context", "N5_publish"])
        choose("N4_finalize", partial(_after_finalize, publish), ["N5_publish", END])
        graph.add_edge("N5_publish", END)
    return graph


def _begin(kind: DocumentKind, load: Node, state: DraftingState, context: Context) -> DraftingUpdate:
    """Every stage has a record from here on, even if an empty one."""
    if problem := state.get("source_problem"):
        raise UnusableSource(f"{nodes.shown_origin(state, context)}: {problem}")
    empty = DraftingUpdate(
        draft=Draft(), check=Check(), reviewed=Reviewed(), decision=Decision(), outcome="", reason=""
    )
    return {**empty, **nodes.begin(kind, state, context), **load(state, context)}


def _has_gate(context: Context, name: str) -> bool:
    return context.settings.review.gate in (name, "all")


def _after_check(state: DraftingState, context: Context) -> str:
    step = nodes.after_check(state, context.settings.limits.max_rounds)
    if step == "review":
        return "G1_draft_gate" if _has_gate(context, "draft") else "N3_review"
    return _AGAIN_OR_END[step]


def _after_review(state: DraftingState, context: Context) -> str:
    if _has_gate(context, "verdict"):
        return "G2_verdict_gate"
    return _AGAIN_OR_END[nodes.after_review(state, context.settings.limits.max_rounds)]


def _after_load(state: DraftingState, _context: Context) -> str:
    return "N5_publish" if state["outcome"] == APPROVED else "N0b_context"


def _after_context(state: DraftingState, _context: Context) -> str:
    """A document that stands is checked first, unless somebody wants it changed."""
    return "N2_validate" if state["draft"].text and not state["decision"].wishes else "N1_design"


def _after_finalize(publish: Publish, state: DraftingState, context: Context) -> str:
    return "N5_publish" if state["outcome"] == APPROVED and publish.is_wanted(context) else END


def _draft_gate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    draft = state["draft"]
    answer = interrupt({"gate": "draft", "round": draft.round, "document": draft.text, "findings": []})
    return nodes.take_answer(kind, state, context, answer, is_final=False)


def _after_draft_gate(state: DraftingState, _context: Context) -> str:
    return "N1_design" if state["decision"].wishes else "N3_review"


def _verdict_gate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingUpdate:
    draft, found = state["draft"], state["reviewed"].review
    question = {
        "gate": "verdict",
        "round": draft.round,
        "verdict": found.verdict.value if found else "",
        "document": draft.text,
        "findings": nodes.complaints_of(state),
    }
    return nodes.take_answer(kind, state, context, interrupt(question), is_final=True)


def _after_verdict_gate(state: DraftingState, _context: Context) -> str:
    return "N1_design" if state["decision"].wishes else "N4_finalize"
