"""What graphs come to is handed out: while the run goes on, after a kill, and afterwards."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from harness import Sandbox, of_type
from test_any_graph import write

GRAPH = """
    import os, time
    from typing import Annotated, TypedDict
    from langchain_core.messages import AIMessage, AnyMessage
    from langgraph.config import get_stream_writer
    from langgraph.graph import START, StateGraph, add_messages

    class Input(TypedDict):
        topic: str

    class Output(TypedDict):
        messages: list[AnyMessage]
        raw: bytes

    class State(TypedDict, total=False):
        topic: str
        hidden: int
        messages: Annotated[list[AnyMessage], add_messages]
        raw: bytes

    def first(state):
        get_stream_writer()({"progress": state["topic"]})
        return {"hidden": 1}

    def second(state):
        if state["topic"] == "bad":
            raise ValueError("sour")
        while state["topic"] == "slow" and not os.path.exists(os.environ["JOURNAL"] + "-go"):
            time.sleep(0.01)
        return {"messages": [AIMessage("on " + state["topic"])], "raw": b"x"}

    graph = StateGraph(State, input_schema=Input, output_schema=Output)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
"""


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_results_are_complete_after_a_kill_and_in_order(sandbox: Sandbox) -> None:
    write(sandbox, "talk.py", GRAPH)
    topics = {"a": "slow", "b": "bees", "c": "bad", "d": "ducks"}
    sandbox.write_items(*({"id": name, "input": {"topic": topic}} for name, topic in topics.items()))
    out = sandbox.root / "out.jsonl"
    command = ["--parallel", "2", "--output", str(out), "--ordered"]
    run = sandbox.start(*command, graph="talk.py:graph")
    run.wait_for_record("item_ended", item="d")
    run.kill(signal.SIGKILL)
    run.wait()
    (sandbox.root / "journal.txt-go").touch()

    done = sandbox.run(*command, graph="talk.py:graph")

    assert done.code == 1, done
    found = results(out)
    assert [(line["id"], line["outcome"]) for line in found] == [
        ("a", "completed"),
        ("b", "completed"),
        ("c", "failed"),
        ("d", "completed"),
    ]
    assert set(found[1]["state"]) == {"messages", "raw"}
    assert [(m["type"], m["content"]) for m in found[1]["state"]["messages"]] == [("ai", "on bees")]
    assert found[1]["state"]["raw"] == {"$type": "bytes", "base64": "eA=="}
    assert found[2]["error"] == {"type": "ValueError", "message": "sour"}
    assert found[2]["state"] is None
    custom = of_type(sandbox.records(), "custom_written", "b")
    assert [(record["node"], record["data"]) for record in custom] == [("first", {"progress": "bees"})]
    assert '[a] {"progress": "slow"}' in run.stdout().splitlines()

    everything = sandbox.command("runs", "result")
    assert sorted(json.loads(line)["id"] for line in everything.lines) == ["a", "b", "c", "d"]
    assert json.loads(sandbox.command("runs", "result", "last", "b").stdout) == found[1]
    assert json.loads(sandbox.command("runs", "result", "d").stdout)["id"] == "d"
    assert "no result of 'x'" in sandbox.command("runs", "result", "last", "x").stderr


def test_a_file_that_somebody_has_written_into_meanwhile_keeps_its_results(sandbox: Sandbox) -> None:
    write(sandbox, "talk.py", GRAPH)
    topics = {"a": "bees", "b": "slow"}
    sandbox.write_items(*({"id": name, "input": {"topic": topic}} for name, topic in topics.items()))
    out = sandbox.root / "out.jsonl"
    run = sandbox.start("--parallel", "2", "--ordered", "--output", str(out), graph="talk.py:graph")
    run.wait_for_record("item_ended", item="a")
    with out.open("a") as file:
        file.write("a note of mine\n")
    (sandbox.root / "journal.txt-go").touch()

    assert run.wait().code == 0
    first, note, second = out.read_text().splitlines()
    assert note == "a note of mine"
    assert [json.loads(line)["id"] for line in (first, second)] == ["a", "b"]


def test_one_run_at_a_time_writes_a_file_of_results_and_whoever_removes_it_meanwhile_loses_none(
    sandbox: Sandbox,
) -> None:
    write(sandbox, "talk.py", GRAPH)
    topics = {"a": "bees", "b": "slow"}
    sandbox.write_items(*({"id": name, "input": {"topic": topic}} for name, topic in topics.items()))
    sandbox.write_items({"id": "c", "input": {"topic": "cats"}}, name="others.jsonl")
    out, link = sandbox.root / "out.jsonl", sandbox.root / "link.jsonl"
    link.symlink_to(out)
    run = sandbox.start("--parallel", "2", "--output", str(link), graph="talk.py:graph")
    run.wait_for_record("item_ended", item="a")

    refused = sandbox.run("--output", str(out), graph="talk.py:graph", items="others.jsonl")
    assert refused.code == 2
    assert "another run writes its results there now" in refused.stderr
    assert len(sandbox.run_dirs()) == 1
    out.unlink()
    (sandbox.root / "journal.txt-go").touch()
    assert run.wait().code == 0

    assert sorted(line["id"] for line in results(out)) == ["a", "b"]
    assert link.is_symlink()
    after = sandbox.run("--output", str(out), graph="talk.py:graph", items="others.jsonl")
    assert after.code == 0
    assert sorted(line["id"] for line in results(out)) == ["a", "b", "c"]


def test_results_on_standard_output_are_all_there_is_on_it(sandbox: Sandbox) -> None:
    write(sandbox, "talk.py", GRAPH)
    (sandbox.root / "topics.txt").write_text("bees\nducks\n")

    done = sandbox.run("--input-key", "topic", "--output", "-", graph="talk.py:graph", items="topics.txt")

    assert done.code == 0, done
    assert [json.loads(line)["id"] for line in done.lines] == ["1", "2"]
    assert "[1] >>> Executing: second" in done.stderr
    refused = sandbox.run(
        "--input-key", "topic", "--output", "-", "--json", graph="talk.py:graph", items="topics.txt"
    )
    assert refused.code == 2
    assert "both want standard output" in refused.stderr
