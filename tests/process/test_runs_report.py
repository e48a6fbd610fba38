"""`agentos runs report`: one file about a run that failed in part, and what CI systems read."""

from __future__ import annotations

from xml.etree import ElementTree

from harness import Sandbox

GRAPH = """
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    fails: bool

def work(state):
    print("<b>working</b>")
    if state.get("fails"):
        raise ValueError("it broke")
    return {}

graph = StateGraph(State)
graph.add_node("work", work)
graph.add_edge(START, "work")
graph.add_edge("work", END)
"""


def test_a_run_is_handed_over_in_one_file(sandbox: Sandbox) -> None:
    (sandbox.project / "flow.py").write_text(GRAPH)
    items = sandbox.write_items({"id": "good", "input": {}}, {"id": "bad", "input": {"fails": True}})
    assert sandbox.command("run", "--graph", "flow.py:graph", "--items", str(items)).code == 1
    summary = sandbox.root / "summary.md"
    reported = sandbox.command(
        "runs", "report", "-o", "run.html", "--junit", "run.xml", env={"GITHUB_STEP_SUMMARY": str(summary)}
    )
    assert (reported.code, reported.lines) == (0, ["Report: run.html"])
    page = (sandbox.project / "run.html").read_text()
    assert '"words":"1 completed"' in page
    assert "<td>it broke</td>" in page
    assert "\\u003cb>working\\u003c/b>" in page
    suite = ElementTree.parse(sandbox.project / "run.xml").getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    assert "| bad | failed |" in summary.read_text()
    refused = sandbox.command("runs", "report", "-o", "missing/run.html")
    assert refused.code == 2
    assert "cannot write missing/run.html" in refused.stderr
