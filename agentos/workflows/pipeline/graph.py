"""The pipeline's graph: the nodes of the LLD workflow, then those of the implementation workflow, on one state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from langgraph.graph import END, START, StateGraph

from agentos.errors import AgentosError
from agentos.llm import set_call_context
from agentos.workflows.context import Context, with_context
from agentos.workflows.implementation.graph import graph as implementation_graph
from agentos.workflows.lld.graph import graph as lld_graph
from agentos.workflows.pipeline.state import PipelineState

_DESIGN: Final = "LLD."
_CODE: Final = "IMPL."
_HAND_OVER: Final = "design_to_code"


def build() -> Any:
    """An item with an approved design starts with its code; one whose design is not approved ends there."""
    graph: Any = StateGraph(PipelineState)
    _embed(graph, lld_graph, _DESIGN, "lld", at_end=_after_design, ends=[_HAND_OVER, END])
    graph.add_node(_HAND_OVER, with_context(hand_over))
    _embed(graph, implementation_graph, _CODE, "implementation", at_end=lambda _state: END, ends=[END])
    first_design, first_code = (f"{prefix}N0_load" for prefix in (_DESIGN, _CODE))
    graph.add_conditional_edges(
        START, lambda state: first_code if state.get("lld_text") else first_design, [first_design, first_code]
    )
    graph.add_edge(_HAND_OVER, first_code)
    return graph


def _embed(
    graph: Any, part: Any, prefix: str, workflow: str, *, at_end: Callable[[Any], str], ends: list[str]
) -> None:
    """Copy a workflow's nodes and edges under a prefix. Not a subgraph: each node keeps a checkpoint of its own."""

    def renamed(name: str) -> str:
        return f"{prefix}{name}"

    for name, node in part.nodes.items():
        graph.add_node(renamed(name), _in_place(node.runnable.func, workflow, name))
    for start, end in part.edges:
        if start == START:
            continue
        if end == END:
            graph.add_conditional_edges(renamed(start), at_end, ends)
        else:
            graph.add_edge(renamed(start), renamed(end))
    for start, branches in part.branches.items():
        for branch in branches.values():
            targets = {name: renamed(name) for name in branch.ends}
            graph.add_conditional_edges(renamed(start), branch.path.func, targets)


def _in_place(node: Callable[[Any], Any], workflow: str, name: str) -> Callable[[Any], Any]:
    """Model calls go by the workflow's own names, so that its recordings serve here too."""

    def run(state: Any) -> Any:
        set_call_context(workflow=workflow, item=state["item_id"], node=name)
        return node(state)

    return run


def _after_design(state: PipelineState) -> str:
    return _HAND_OVER if state["outcome"] == "approved" else END


def hand_over(state: PipelineState, context: Context) -> PipelineState:
    """The approved design, as it was written down, becomes what code is written from."""
    label = f"LLD-{state['item_id']}"
    final = context.lineage(label).latest("final")
    if final is None:
        raise AgentosError(f"The approved design of {label} is not in its lineage: run again with --fresh.")
    return PipelineState(
        lld_text=final.read(), lld_path=f"{context.settings.documents.lld_dir}/{label}.md", outcome="", reason=""
    )


graph = build()
