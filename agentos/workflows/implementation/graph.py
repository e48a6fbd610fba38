"""The implementation workflow's graph: plan, red, then code until green or stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.graph import END, START, StateGraph

from agentos.workflows.context import Context
from agentos.workflows.implementation import ending, nodes, offline
from agentos.workflows.implementation.state import (
    ImplementationInput,
    ImplementationState,
    ImplementationUpdate,
)
from agentos.workflows.node import Step, as_choice, as_node

Node = Step[ImplementationState, ImplementationUpdate]
_NAMES = {
    "plan": "N1_test_plan",
    "scaffold": "N2_scaffold_tests",
    "implement": "N4_implement",
    "report": "N6_report",
}


def build() -> Any:
    """The graph over ImplementationState; every node may run twice and does the same."""
    graph: Any = StateGraph(ImplementationState, input_schema=ImplementationInput)

    def add(name: str, node: Node) -> None:
        graph.add_node(name, as_node(ImplementationState, nodes.WORKFLOW, name, node))

    def choose(after: str, choice: Callable[[ImplementationState, Context], str], *steps: str) -> None:
        targets = {step: _NAMES[step] for step in steps}
        graph.add_conditional_edges(after, as_choice(ImplementationState, choice), targets)

    add("N0_load", nodes.load)
    add("N1_test_plan", nodes.test_plan)
    add("N2_scaffold_tests", nodes.scaffold_tests)
    add("N3_verify_red", nodes.verify_red)
    add("N4_implement", nodes.implement)
    add("N5_verify_green", nodes.verify_green)
    add("N6_report", nodes.report)
    add("N7_finalize", nodes.finalize)
    graph.add_edge(START, "N0_load")
    graph.add_edge("N0_load", "N1_test_plan")
    choose("N1_test_plan", lambda state, _: ending.after_plan(state), "plan", "scaffold", "report")
    graph.add_edge("N2_scaffold_tests", "N3_verify_red")
    choose("N3_verify_red", lambda state, _: ending.after_red(state), "scaffold", "implement", "report")
    graph.add_edge("N4_implement", "N5_verify_green")
    choose("N5_verify_green", _after_green, "implement", "report")
    graph.add_edge("N6_report", "N7_finalize")
    graph.add_edge("N7_finalize", END)
    return graph


def _after_green(state: ImplementationState, context: Context) -> str:
    return ending.after_green(state, context.settings.implementation.max_rounds)


offline.register()
graph = build()
