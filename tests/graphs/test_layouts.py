"""Projects as templates lay them out, started as their README says; and results of a long run through two kills."""

from __future__ import annotations

import json
import signal
import textwrap
from pathlib import Path

import pytest
from harness import Sandbox, Started, eventually

GRAPH = """
    import os
    from langgraph.graph import START, StateGraph
    {imports}

    graph = StateGraph(State)
    graph.add_node("work", lambda state: {{"text": shout(state["text"]) + os.environ.get("MARK", "")}})
    graph.add_edge(START, "work")
    graph = graph.compile()
"""
STATE = """
    from typing_extensions import TypedDict

    class State(TypedDict, total=False):
        text: str
"""
TOOLS = "def shout(text: str) -> str:\n    return text.upper()\n"

FLAT = {
    "langgraph.json": json.dumps({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, "env": ".env"}),
    ".env": "MARK='!'\n",
    "agent.py": GRAPH.format(imports="from state import State\n    from tools import shout"),
    "state.py": STATE,
    "tools.py": TOOLS,
}
SRC = {
    "pyproject.toml": "[project]\nname = 'my-agent'\nversion = '0.1'\n",
    "langgraph.json": json.dumps({"dependencies": ["."], "graphs": {"agent": "./src/my_agent/graph.py:graph"}}),
    "src/my_agent/__init__.py": "",
    "src/my_agent/graph.py": GRAPH.format(imports="from .state import State\n    from my_agent.tools import shout"),
    "src/my_agent/state.py": STATE,
    "src/my_agent/tools.py": TOOLS,
}
MONOREPO = {
    "apps/agent/langgraph.json": json.dumps(
        {
            "dependencies": [".", "../../libs/common", "../../libs/voice"],
            "graphs": {"agent": {"path": "./agent/graph.py:graph"}, "other": "./agent/graph.py:graph"},
            "env": {"MARK": "?"},
        }
    ),
    "apps/agent/agent/graph.py": GRAPH.format(
        imports="from common.state import State\n    from agent.tools import shout"
    ),
    "apps/agent/agent/tools.py": "from voice import shout",
    "libs/voice/__init__.py": TOOLS,
    "libs/common/src/common/__init__.py": "",
    "libs/common/src/common/state.py": STATE,
}
LAYOUTS = {
    "langgraph.json": (FLAT, "", "langgraph.json", "HI!"),
    "src package": (SRC, "", "langgraph.json:agent", "HI"),
    "monorepo": (MONOREPO, "apps/agent", "langgraph.json:agent", "HI?"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_project_runs_as_its_readme_says(sandbox: Sandbox, layout: str) -> None:
    files, folder, graph, text = LAYOUTS[layout]
    for name, content in files.items():
        path = sandbox.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))
    items = sandbox.write_items({"id": "a", "input": {"text": "hi"}})

    command = ["run", "--graph", graph, "--items", str(items), "--output", "-"]
    done = sandbox.command(*command, cwd=sandbox.project / folder)

    assert done.code == 0, done
    assert json.loads(done.stdout)["state"] == {"text": text}


def resident_kilobytes(run: Started) -> int:
    status = Path(f"/proc/{run.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_thousand_items_are_complete_and_in_order_after_two_kills(sandbox: Sandbox) -> None:
    (sandbox.project / "state.py").write_text(textwrap.dedent(STATE))
    (sandbox.project / "tools.py").write_text(TOOLS)
    imports = "from state import State\n    from tools import shout"
    (sandbox.project / "agent.py").write_text(textwrap.dedent(GRAPH.format(imports=imports)))
    sandbox.write_items(*({"id": f"i{n}", "input": {"text": f"t{n}"}} for n in range(2000)))
    out = sandbox.root / "out.jsonl"
    command = ["--parallel", "8", "--output", str(out), "--ordered"]

    def written() -> int:
        return out.read_bytes().count(b"\n") if out.exists() else 0

    for many in (600, 1300):
        run = sandbox.start(*command, graph="agent.py:graph")
        eventually(lambda many=many: written() >= many, f"{many} results", 600)
        run.kill(signal.SIGKILL)
        run.process.wait()
    run = sandbox.start(*command, graph="agent.py:graph")
    eventually(lambda: written() >= 1400, "1400 results", 600)
    early = resident_kilobytes(run)
    eventually(lambda: written() >= 1950, "1950 results", 600)
    late = resident_kilobytes(run)

    assert run.wait(600).code == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in found] == [f"i{n}" for n in range(2000)]
    assert [line["state"] for line in found] == [{"text": f"T{n}"} for n in range(2000)]
    assert late - early < 20_000
