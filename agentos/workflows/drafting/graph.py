"""The shape every document workflow has: load, context, then design, check and review until it is good or stuck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from agentos.settings import load_settings
from agentos.workflows.drafting import steps
from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.drafting.steps import DocumentKind

Node = Callable[[DraftingState], DraftingState]


@dataclass(frozen=True, slots=True)
class Publish:
    """A last node for approved documents that also go elsewhere."""

    node: Node
    is_wanted: Callable[[], bool]


def build(kind: DocumentKind, *, load: Node, context: Node, finalize: Node, publish: Publish | None = None) -> Any:
    """The graph of a document workflow. Gates are nodes of their own, passed only where a person decides.

    A document that `load` finds approved already goes to `publish` at once.
    """
    graph: Any = StateGraph(DraftingState)
    graph.add_node("N0_load", load)
    graph.add_node("N0b_context", context)
    graph.add_node("N1_design", lambda state: steps.design(kind, state))
    graph.add_node("N2_validate", lambda state: steps.validate(kind, state))
    graph.add_node("G1_draft_gate", lambda state: _draft_gate(kind, state))
    graph.add_node("N3_review", lambda state: steps.review(kind, state))
    graph.add_node("G2_verdict_gate", lambda state: _verdict_gate(kind, state))
    graph.add_node("N4_finalize", finalize)
    graph.add_edge(START, "N0_load")
    graph.add_edge("N0b_context", "N1_design")
    graph.add_edge("N1_design", "N2_validate")
    graph.add_conditional_edges(
        "N2_validate", _after_check, ["N1_design", "G1_draft_gate", "N3_review", "N4_finalize"]
    )
    graph.add_conditional_edges("G1_draft_gate", _after_draft_gate, ["N1_design", "N3_review"])
    graph.add_conditional_edges("N3_review", _after_review, ["N1_design", "G2_verdict_gate", "N4_finalize"])
    graph.add_conditional_edges("G2_verdict_gate", _after_verdict_gate, ["N1_design", "N4_finalize"])
    if publish is None:
        graph.add_edge("N0_load", "N0b_context")
        graph.add_edge("N4_finalize", END)
    else:
        graph.add_node("N5_publish", publish.node)
        graph.add_conditional_edges("N0_load", _after_load, ["N0b_context", "N5_publish"])
        graph.add_conditional_edges("N4_finalize", _after_finalize(publish), ["N5_publish", END])
        graph.add_edge("N5_publish", END)
    return graph


def max_rounds() -> int:
    return load_settings(Path.cwd()).limits.max_rounds


def _has_gate(name: str) -> bool:
    return load_settings(Path.cwd()).review.gate in (name, "all")


def _after_check(state: DraftingState) -> str:
    step = steps.after_check(state, max_rounds())
    if step == "review":
        return "G1_draft_gate" if _has_gate("draft") else "N3_review"
    return {"design": "N1_design", "finalize": "N4_finalize"}[step]


def _after_review(state: DraftingState) -> str:
    if _has_gate("verdict"):
        return "G2_verdict_gate"
    return {"design": "N1_design", "finalize": "N4_finalize"}[steps.after_review(state, max_rounds())]


def _after_load(state: DraftingState) -> str:
    return "N5_publish" if state.get("outcome") == "approved" else "N0b_context"


def _after_finalize(publish: Publish) -> Callable[[DraftingState], str]:
    return lambda state: "N5_publish" if state["outcome"] == "approved" and publish.is_wanted() else END


def _draft_gate(kind: DocumentKind, state: DraftingState) -> DraftingState:
    answer = interrupt({"gate": "draft", "round": state["round"], "document": state["draft"], "findings": []})
    return steps.take_answer(kind, state, answer)


def _after_draft_gate(state: DraftingState) -> str:
    return "N1_design" if state.get("wishes") else "N3_review"


def _verdict_gate(kind: DocumentKind, state: DraftingState) -> DraftingState:
    question = {
        "gate": "verdict",
        "round": state["round"],
        "verdict": state["review"]["verdict"],
        "document": state["draft"],
        "findings": steps.complaints_of(state),
    }
    answer = interrupt(question)
    changes = steps.take_answer(kind, state, answer)
    return DraftingState(**changes, decision="" if changes["wishes"] else "approve")


def _after_verdict_gate(state: DraftingState) -> str:
    return "N1_design" if state.get("wishes") else "N4_finalize"
