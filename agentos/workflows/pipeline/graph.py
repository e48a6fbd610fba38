"""The pipeline's graph: the LLD workflow, then the implementation workflow, each a subgraph with its own state."""

from __future__ import annotations

from typing import Any, Final

from langgraph.graph import END, START, StateGraph

from agentos.workflows.context import current
from agentos.workflows.drafting.state import APPROVED, REHEARSED, DraftingInput
from agentos.workflows.implementation.graph import graph as implementation_graph
from agentos.workflows.implementation.state import ImplementationInput
from agentos.workflows.lld.graph import graph as lld_graph
from agentos.workflows.pipeline import nodes
from agentos.workflows.pipeline.state import PipelineInput, PipelineState

_DESIGN: Final = "LLD"
_CODE: Final = "IMPL"
_HAND_OVER: Final = "design_to_code"


def build() -> Any:
    """An item with an approved design starts with its code; one whose design is not approved ends there."""
    graph: Any = StateGraph(PipelineState, input_schema=PipelineInput)
    graph.add_node(_DESIGN, lld_graph.compile(), input_schema=DraftingInput)
    graph.add_node(_HAND_OVER, lambda state: nodes.hand_over(state, current()))
    graph.add_node(_CODE, implementation_graph.compile(), input_schema=ImplementationInput)
    graph.add_conditional_edges(START, _first_stage, [_DESIGN, _CODE])
    graph.add_conditional_edges(_DESIGN, _after_design, [_HAND_OVER, END])
    graph.add_edge(_HAND_OVER, _CODE)
    graph.add_edge(_CODE, END)
    return graph


def _first_stage(state: PipelineState) -> str:
    return _CODE if state["lld_text"] else _DESIGN


def _after_design(state: PipelineState) -> str:
    return _HAND_OVER if state["outcome"] in (APPROVED, REHEARSED) else END


graph = build()
