"""What `--graph` names is loaded, or refused in words that tell what to write instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentos.engine.graph_loading import load_graph
from agentos.errors import UsageError

SOURCE = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict):
    text: str

number = 7
graph = StateGraph(State)
graph.add_node("n", lambda state: {})
graph.add_edge(START, "n")
broken = StateGraph(State)
broken.add_node("n", lambda state: {})
broken.add_edge(START, "n")
broken.add_edge("n", "nowhere")

def makes(): return graph
def needs_argument(argument): ...
def fails(): return {}["missing"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With modules to load; this process imports as before when the test is over."""
    (tmp_path / "sample_flow.py").write_text(SOURCE)
    (tmp_path / "sample_needy.py").write_text("import no_such_library")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return tmp_path


@pytest.mark.parametrize("attribute", ["graph", "makes"])
def test_a_graph_is_loaded_and_a_factory_without_wishes_asked(folder: Path, attribute: str) -> None:
    loaded = load_graph(f"sample_flow.py:{attribute}", folder)

    assert loaded.graph is not None
    assert set(loaded.graph.nodes) >= {"n"}


@pytest.mark.parametrize(
    ("spec", "pieces"),
    [
        ("sample_flow.py:grpah", ["no attribute 'grpah'", "Did you mean 'graph'?"]),
        ("sample_flow.py:number", ["int", "StateGraph"]),
        ("sample_flow.py:needs_argument", ["needs 'argument'", "`config` or `runtime`"]),
        ("sample_flow.py:broken", ["does not compile", "nowhere"]),
        ("no_such_module:graph", ["no module 'no_such_module'", "PATH.py:ATTR"]),
    ],
)
def test_what_is_no_graph_is_refused_with_the_reason(folder: Path, spec: str, pieces: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        load_graph(spec, folder)

    assert [piece for piece in pieces if piece not in str(raised.value)] == []


@pytest.mark.parametrize(
    ("spec", "error"),
    [("sample_flow.py:fails", KeyError), ("sample_needy.py:graph", ModuleNotFoundError)],
)
def test_what_the_graphs_own_code_raises_comes_through(folder: Path, spec: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"missing|no_such_library"):
        load_graph(spec, folder)
