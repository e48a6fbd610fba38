"""What the registry says of our workflows is what their graphs are."""

from __future__ import annotations

from importlib import import_module

import pytest

from agentos.workflows.registry import WORKFLOWS

STAGES = {"LLD": "lld", "IMPL": "implementation"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_nodes_of_a_workflow_are_those_of_its_graph(name: str) -> None:
    graph = import_module(f"agentos.workflows.{name}.graph").graph
    nodes = {f"{node}.{each}" if each else node for node in graph.nodes for each in _inner(name, node)}
    assert set(WORKFLOWS[name].nodes) == nodes
    assert len(WORKFLOWS[name].nodes) == len(nodes)


def _inner(name: str, node: str) -> tuple[str, ...]:
    return WORKFLOWS[STAGES[node]].nodes if name == "pipeline" and node in STAGES else ("",)
