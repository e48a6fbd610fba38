"""The implementation workflow's graph: plan, red, then code until green or stuck."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph

from agentos.workflows.context import Context, with_context
from agentos.workflows.implementation import ending, nodes, offline
from agentos.workflows.implementation.state import ImplementationState

_NAMES = {
    "plan": "N1_test_plan",
    "scaffold": "N2_scaffold_tests",
    "implement": "N4_implement",
    "report": "N6_report",
}


def build() -> Any:
    """The graph over ImplementationState; every node may run twice and does the same."""
    graph: Any = StateGraph(ImplementationState)
    graph.add_node("N0_load", with_context(nodes.load))
    graph.add_node("N1_test_plan", with_context(nodes.test_plan))
    graph.add_node("N2_scaffold_tests", with_context(nodes.scaffold_tests))
    graph.add_node("N3_verify_red", with_context(nodes.verify_red))
    graph.add_node("N4_implement", with_context(nodes.implement))
    graph.add_node("N5_verify_green", with_context(nodes.verify_green))
    graph.add_node("N6_report", with_context(nodes.report))
    graph.add_node("N7_finalize", with_context(nodes.finalize))
    graph.add_edge(START, "N0_load")
    graph.add_edge("N0_load", "N1_test_plan")
    graph.add_conditional_edges("N1_test_plan", _after_plan, _targets("plan", "scaffold", "report"))
    graph.add_edge("N2_scaffold_tests", "N3_verify_red")
    graph.add_conditional_edges("N3_verify_red", _after_red, _targets("scaffold", "implement", "report"))
    graph.add_edge("N4_implement", "N5_verify_green")
    graph.add_conditional_edges("N5_verify_green", with_context(_after_green), _targets("implement", "report"))
    graph.add_edge("N6_report", "N7_finalize")
    graph.add_edge("N7_finalize", END)
    return graph


def _targets(*steps: str) -> list[str]:
    return [_NAMES[step] for step in steps]


def _after_plan(state: ImplementationState) -> str:
    return _NAMES[ending.after_plan(state)]


def _after_red(state: ImplementationState) -> str:
    return _NAMES[ending.after_red(state)]


def _after_green(state: ImplementationState, context: Context) -> str:
    return _NAMES[ending.after_green(state, context.settings.implementation.max_rounds)]


offline.register()
graph = build()
