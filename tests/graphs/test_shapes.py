"""Graphs of every published shape: the same state as plain `invoke`, and the same again after a kill half way."""

from __future__ import annotations

import ast
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from harness import Sandbox, eventually

HERE = Path(__file__).parent
COUNT = 5
QUICK = ["nested_subgraphs", "odd_values", "equal_values"]
"""In every `make test`; all others with `-m slow`."""
PLAIN = """
import asyncio, json, sys
import shapes
from agentos.engine.graph_loading import FactoryCall, LoadedGraph, as_graph
from agentos.engine.plain_json import to_plain
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

async def run(name, number):
    config = {"configurable": {"thread_id": f"{name}-{number}"}}
    value = getattr(shapes, name)
    is_made = name in shapes.FACTORIES
    loaded = LoadedGraph(name, factory=value) if is_made else LoadedGraph(name, as_graph(value, name))
    async with loaded.opened_async(FactoryCall(config)) as graph:
        graph = graph.copy({"checkpointer": InMemorySaver(), "store": graph.store or InMemoryStore()})
        context = {} if graph.context_schema else None
        result = await graph.ainvoke(shapes.SHAPES[name](number), config, context=context)
    if isinstance(result, dict):
        result.pop("__interrupt__", None)
    return to_plain(result)

def told(name):
    return {
        "inputs": [shapes.SHAPES[name](n) for n in range(5)],
        "states": [asyncio.run(run(name, n)) for n in range(5)],
        "has_one_step": name in shapes.ONE_STEP,
    }

print(json.dumps({name: told(name) for name in sys.argv[1:]}))
"""


@cache
def assigned(name: str) -> Any:
    """Read, not imported: whoever collects tests needs no LangGraph."""
    tree = ast.parse((HERE / "shapes.py").read_text())
    of_name = (n for n in tree.body if isinstance(n, ast.AnnAssign | ast.Assign))
    return next(n.value for n in of_name if name in ast.unparse(n).partition("=")[0].split(":")[0])


def shape_names() -> list[str]:
    found = assigned("SHAPES")
    assert isinstance(found, ast.Dict)
    groups = [value.args[0] for key, value in zip(found.keys, found.values, strict=True) if key is None]
    names = [key for group in groups for key in group.elts] + [key for key in found.keys if key is not None]
    return [key.value for key in names]


def factory_names() -> list[str]:
    return list(ast.literal_eval(assigned("FACTORIES")))


def plain(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What plain `invoke` makes of these shapes' items."""
    command = [sys.executable, "-c", PLAIN, *names]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    shutil.copy(HERE / "shapes.py", made.project)
    try:
        yield made
    finally:
        made.close()


def without_ids(value: Any) -> Any:
    """Messages and questions get ids by chance."""
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items() if not (k == "id" and "content" in value)}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


def outcome_of(name: str) -> str:
    return "awaiting_review" if name == "asks_a_person" else "completed"


def check_with_killed_run(project: Sandbox, name: str) -> None:
    expected = plain([name])[name]
    project.write_items(*({"id": f"i{n}", "input": value} for n, value in enumerate(expected["inputs"])))
    hold = project.root / "hold"
    hold.mkdir()
    out = project.root / "out.jsonl"
    command = ["--parallel", str(COUNT), "--output", str(out), "--ordered"]
    graph = f"shapes.py:{name}"
    run = project.start(*command, graph=graph, env={"SHAPES_HOLD": str(hold)})
    eventually(lambda: len(list(hold.iterdir())) == COUNT, f"{COUNT} items half way", 120)
    run.kill(signal.SIGKILL)
    run.process.wait()
    (hold / "go").touch()

    done = project.run(*command, graph=graph, env={"SHAPES_HOLD": str(hold)}, seconds=120)

    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in found] == [f"i{n}" for n in range(COUNT)], (done, found)
    assert {line["outcome"] for line in found} == {outcome_of(name)}, (done, found)
    assert without_ids([line["state"] for line in found]) == without_ids(expected["states"])


@pytest.mark.parametrize("name", QUICK)
def test_a_shape_ends_as_plain_invoke_does_after_a_kill_half_way(project: Sandbox, name: str) -> None:
    check_with_killed_run(project, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", factory_names())
def test_a_made_graph_ends_as_plain_invoke_does_after_a_kill_half_way(project: Sandbox, name: str) -> None:
    check_with_killed_run(project, name)


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_every_shape_ends_as_plain_invoke_does(project: Sandbox, is_killed: bool) -> None:
    """In one run; with kills, the process of each item is killed half way, and the item resumes in another."""
    names = [name for name in shape_names() if name not in factory_names()]
    expected = plain(names)
    project.write_items(
        *(
            {"id": f"{name}-{n}", "input": value, "config": {"configurable": {"shape": name}}}
            for name in names
            for n, value in enumerate(expected[name]["inputs"])
        )
    )
    marks = project.root / "marks"
    marks.mkdir()
    out = project.root / "out.jsonl"
    command = ["--parallel", "6", "--retry", "1", "--output", str(out), "--ordered"]

    env = {"SHAPES_KILL": str(marks)} if is_killed else {}
    done = project.run(*command, graph="shapes.py:any_shape", env=env, seconds=280)

    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in found] == [f"{name}-{n}" for name in names for n in range(COUNT)], done
    for place, name in enumerate(names):
        lines = found[place * COUNT : (place + 1) * COUNT]
        was_killed = is_killed and not expected[name]["has_one_step"]
        assert {(line["outcome"], line["attempts"]) for line in lines} == {(outcome_of(name), 1 + was_killed)}, lines
        assert without_ids([line["state"] for line in lines]) == without_ids(expected[name]["states"]), name


def test_there_are_shapes_enough() -> None:
    assert len(set(shape_names())) >= 40
