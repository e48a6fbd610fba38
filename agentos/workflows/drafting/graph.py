"""The shape every document workflow has: load, context, then design, check and review until it is good or stuck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from agentos.workflows.context import Context, with_context
from agentos.workflows.drafting import steps
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.drafting.steps import DocumentKind

Node = Callable[[DraftingState, Context], DraftingState]


@dataclass(frozen=True, slots=True)
class Publish:
    """A last node for approved documents that also go elsewhere."""

    node: Node
    is_wanted: Callable[[Context], bool]


def build(kind: DocumentKind, *, load: Node, context: Node, finalize: Node, publish: Publish | None = None) -> Any:
    """The graph of a document workflow. Gates are nodes of their own, passed only where a person decides.

    A document that `load` finds approved already goes to `publish` at once.
    """
    graph: Any = StateGraph(DraftingState)
    graph.add_node("N0_load", with_context(load))
    graph.add_node("N0b_context", with_context(context))
    graph.add_node("N1_design", with_context(partial(steps.design, kind)))
    graph.add_node("N2_validate", with_context(partial(steps.validate, kind)))
    graph.add_node("G1_draft_gate", with_context(partial(_draft_gate, kind)))
    graph.add_node("N3_review", with_context(partial(steps.review, kind)))
    graph.add_node("G2_verdict_gate", with_context(partial(_verdict_gate, kind)))
    graph.add_node("N4_finalize", with_context(finalize))
    graph.add_edge(START, "N0_load")
    graph.add_edge("N0b_context", "N1_design")
    graph.add_edge("N1_design", "N2_validate")
    graph.add_conditional_edges(
        "N2_validate", with_context(_after_check), ["N1_design", "G1_draft_gate", "N3_review", "N4_finalize"]
    )
    graph.add_conditional_edges("G1_draft_gate", _after_draft_gate, ["N1_design", "N3_review"])
    graph.add_conditional_edges(
        "N3_review", with_context(_after_review), ["N1_design", "G2_verdict_gate", "N4_finalize"]
    )
    graph.add_conditional_edges("G2_verdict_gate", _after_verdict_gate, ["N1_design", "N4_finalize"])
    if publish is None:
        graph.add_edge("N0_load", "N0b_context")
        graph.add_edge("N4_finalize", END)
    else:
        graph.add_node("N5_publish", with_context(publish.node))
        graph.add_conditional_edges("N0_load", _after_load, ["N0b_context", "N5_publish"])
        graph.add_conditional_edges(
            "N4_finalize", with_context(partial(_after_finalize, publish)), ["N5_publish", END]
        )
        graph.add_edge("N5_publish", END)
    return graph


def _has_gate(context: Context, name: str) -> bool:
    return context.settings.review.gate in (name, "all")


def _after_check(state: DraftingState, context: Context) -> str:
    step = steps.after_check(state, context.settings.limits.max_rounds)
    if step == "review":
        return "G1_draft_gate" if _has_gate(context, "draft") else "N3_review"
    return {"design": "N1_design", "finalize": "N4_finalize"}[step]


def _after_review(state: DraftingState, context: Context) -> str:
    if _has_gate(context, "verdict"):
        return "G2_verdict_gate"
    step = steps.after_review(state, context.settings.limits.max_rounds)
    return {"design": "N1_design", "finalize": "N4_finalize"}[step]


def _after_load(state: DraftingState) -> str:
    return "N5_publish" if state.get("outcome") == "approved" else "N0b_context"


def _after_finalize(publish: Publish, state: DraftingState, context: Context) -> str:
    return "N5_publish" if state["outcome"] == "approved" and publish.is_wanted(context) else END


def _draft_gate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingState:
    answer = interrupt({"gate": "draft", "round": state["round"], "document": state["draft"], "findings": []})
    return steps.take_answer(kind, state, context, answer)


def _after_draft_gate(state: DraftingState) -> str:
    return "N1_design" if state.get("wishes") else "N3_review"


def _verdict_gate(kind: DocumentKind, state: DraftingState, context: Context) -> DraftingState:
    question = {
        "gate": "verdict",
        "round": state["round"],
        "verdict": state["review"]["verdict"],
        "document": state["draft"],
        "findings": steps.complaints_of(state),
    }
    answer = interrupt(question)
    changes = steps.take_answer(kind, state, context, answer)
    return DraftingState(**changes, decision="" if changes["wishes"] else "approve")


def _after_verdict_gate(state: DraftingState) -> str:
    return "N1_design" if state.get("wishes") else "N4_finalize"
