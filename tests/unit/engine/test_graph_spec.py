"""What `--graph` names: the same graph by any spelling, and never two by one name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentos.engine.graph_spec import parse_env, read_project, resolve_graph
from agentos.errors import UsageError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for place in ("a/graph.py", "b/graph.py", "a_b/graph.py", "a-b/graph.py", "src/agent/__init__.py"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "src/agent/graph.py").write_text("")
    document = {"dependencies": [".", "langchain_openai"], "graphs": {"agent": "./src/agent/graph.py:graph"}}
    (tmp_path / "langgraph.json").write_text(json.dumps({**document, "env": ".env"}))
    return tmp_path


def test_two_graphs_never_have_one_name(project: Path) -> None:
    specs = [("a", "graph.py:graph"), ("b", "graph.py:graph"), ("", "a_b/graph.py:graph"), ("", "a-b/graph.py:graph")]
    names = [resolve_graph(spec, project / here).name_in(project) for here, spec in specs]

    assert names[:3] == ["a-graph-graph", "b-graph-graph", "a_b-graph-graph"]
    assert len(set(names)) == 4


def test_every_spelling_of_a_graph_has_one_name(project: Path) -> None:
    (project / "link").symlink_to(project / "src")
    spellings = ["src/agent/graph.py:graph", "agent.graph:graph", "langgraph.json", "langgraph.json:agent"]
    names = {resolve_graph(spec, project).name_in(project) for spec in [*spellings, "link/agent/graph.py:graph"]}
    names.add(resolve_graph("../langgraph.json:agent", project / "a").name_in(project))

    assert names == {"src-agent-graph-graph"}


def test_the_folders_of_its_project_are_where_it_is_imported_from(project: Path) -> None:
    spec = resolve_graph("langgraph.json", project)

    assert spec.import_roots(project) == [project / "src", project]
    assert spec.project is not None
    assert spec.project.other_dependencies == ("langchain_openai",)
    assert spec.project.warnings == (
        "langgraph.json: its env file .env does not exist; none of its variables are set",
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("graph.py", "expected PATH.py:ATTR"),
        ("nowhere.py:graph", "no file 'nowhere.py'"),
        ("langgraph.json:agnet", "Did you mean 'agent'?"),
        ("other/langgraph.json", "No such file"),
        ("a..b:graph", "is not a module"),
    ],
)
def test_what_cannot_be_found_is_said(project: Path, spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("?", r"\?")):
        resolve_graph(spec, project)


def test_which_of_several_graphs_has_to_be_said(project: Path) -> None:
    path = project / "two.json"
    path.write_text(json.dumps({"graphs": {"one": "./a/graph.py:graph", "two": {"path": "./b/graph.py:graph"}}}))

    with pytest.raises(UsageError, match=r"say which graph: two\.json:one, two\.json:two"):
        resolve_graph("two.json", project)
    assert read_project(path).graphs["two"] == "./b/graph.py:graph"


def test_an_env_file_is_read_as_a_shell_would() -> None:
    text = "# keys\nexport A=1\nB = two words # said\nC='x # y'\nD=\"line\\nend\"\nnot a line\nE=\n"

    assert parse_env(text) == {"A": "1", "B": "two words", "C": "x # y", "D": "line\nend", "E": ""}
