"""Steering a run that is under way, with the installed command: each act does what it says, and is on record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from harness import Sandbox, Started, eventually, no_process_left, of_type, resume_line

GATE = """
import time
from pathlib import Path
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    gate: str
    fails: bool

def wait(state):
    while state.get("gate") and not Path(state["gate"]).exists():
        time.sleep(0.01)
    return {}

def finish(state):
    if state.get("fails") and not Path("mended").exists():
        raise ValueError("not mended yet")
    return {}

graph = StateGraph(State)
graph.add_node("wait", wait)
graph.add_node("finish", finish)
graph.add_edge(START, "wait")
graph.add_edge("wait", "finish")
graph.add_edge("finish", END)
"""


@pytest.fixture
def steered(sandbox: Sandbox) -> Started:
    """`held` waits for its gate, `broken` has failed and taken `after` with it, three more are queued."""
    (sandbox.project / "gate.py").write_text(GATE)
    items = sandbox.write_items(
        {"id": "broken", "priority": 9, "input": {"fails": True}},
        {"id": "after", "depends_on": ["broken"], "input": {}},
        {"id": "held", "input": {"gate": "open"}},
        *({"id": f"more-{number}", "input": {"gate": "open"}} for number in range(3)),
    )
    started = sandbox.start_command(
        "run", "--graph", "gate.py:graph", "--items", str(items), "--parallel", "1", "--output", "out.jsonl"
    )
    started.wait_for_record("node_started", item="held", node="wait")
    return started


def status(sandbox: Sandbox, *words: str) -> dict[str, Any]:
    finished = sandbox.command("ctl", *words, "--json")
    assert finished.code == 0, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def test_a_run_is_paused_steered_and_resumed(sandbox: Sandbox, steered: Started) -> None:
    assert list(status(sandbox, "status")["running"]) == ["held"]
    assert status(sandbox, "pause", "--reason", "lunch")["state"] == "paused"
    again = sandbox.command("ctl", "pause")
    assert again.code == 2
    assert "paused already" in again.stderr
    # What was under way finishes, and nothing new starts: its next node waits.
    (sandbox.project / "open").touch()
    steered.wait_for_record("node_finished", item="held", node="wait")
    assert status(sandbox, "parallel", "2")["parallel"] == {"wanted": 2, "now": 0}
    (sandbox.project / "mended").touch()
    again = status(sandbox, "retry", "broken")
    assert again["left"][:2] == ["broken", "after"]
    assert "6 items left: broken, after, " in sandbox.command("runs", "show", "last").stdout
    status(sandbox, "skip", "more-0", "--reason", "not needed")
    status(sandbox, "stop", "more-1")
    assert not of_type(sandbox.records(), "node_started", "more-2")
    assert [r["node"] for r in of_type(sandbox.records(), "node_started", "held")] == ["wait"]
    assert status(sandbox, "resume")["state"] == "running"
    finished = steered.wait()
    assert finished.code == 130, finished.stdout
    acts = [(r["act"], r["target"], r["reason"]) for r in of_type(sandbox.records(), "control_taken")]
    assert acts == [
        ("pause", "", "lunch"),
        ("parallel", "", ""),
        ("retry", "broken", ""),
        ("skip", "more-0", "not needed"),
        ("stop", "more-1", ""),
        ("resume", "", ""),
    ]
    lines = (sandbox.project / "out.jsonl").read_text().splitlines()
    results = {result["id"]: result["outcome"] for result in map(json.loads, lines)}
    assert len(lines) == len(results)
    assert results == {
        "broken": "completed", "after": "completed", "held": "completed", "more-0": "skipped", "more-2": "completed"
    }  # fmt: skip
    assert "1 item left: more-1" in finished.stdout
    assert "Paused by" in finished.stdout
    no_process_left(sandbox.home)


def test_a_paused_run_stops_at_once_and_resumes(sandbox: Sandbox, steered: Started) -> None:
    status(sandbox, "pause")
    (sandbox.project / "open").touch()
    steered.wait_for_record("node_finished", item="held", node="wait")
    assert sandbox.command("ctl", "stop").code == 0
    finished = steered.wait()
    assert finished.code == 130
    ended = sandbox.command("ctl", "resume")
    assert ended.code == 2
    assert f"no run is under way. Its items continue with: {resume_line(finished)}" in ended.stderr
    (sandbox.project / "mended").touch()
    assert sandbox.paste(finished).code == 0
    assert [r["node"] for r in of_type(sandbox.records(), "node_started", "held")] == ["wait", "finish"]


def test_acts_that_make_no_sense_are_refused_and_change_nothing(sandbox: Sandbox, steered: Started) -> None:
    before = status(sandbox, "status")
    for words, told in (
        ((), "what to do is missing. Acts: status, pause, resume, parallel N"),
        (("last",), "what to do is missing. Acts: status, pause, resume, parallel N"),
        (("frob",), "unknown act 'frob'"),
        (("paus",), "Did you mean pause or status?"),
        (("parallel", "0"), "a whole number from 1 to 10"),
        (("parallel", "many"), "'many' is not a number"),
        (("retry",), "ctl [RUN] retry ITEM"),
        (("retry", "held"), "has not ended yet"),
        (("retry", "after"), "depends on broken"),
        (("skip", "broken"), "failed already"),
        (("skip", "nobody"), "no item 'nobody'"),
        (("budget", "5"), "without a budget"),
        (("nonsense", "status"), "no run 'nonsense'"),
        (("resume",), "not paused"),
    ):
        refused = sandbox.command("ctl", *words)
        assert refused.code == 2, words
        assert told in refused.stderr, (words, refused.stderr)
    after = status(sandbox, "status")
    assert {**after, "running": {}} == {**before, "running": {}}
    steered.kill()
    eventually(lambda: "no run is under way" in sandbox.command("ctl", "status").stderr, "the killed run is noticed")


def test_without_its_process_a_run_is_continued_by_the_command_that_an_act_names(
    sandbox: Sandbox, steered: Started
) -> None:
    steered.kill()
    steered.wait()
    run = sandbox.run_dirs()[0].name
    (shown,) = re.findall(r"Resume with: (.*)", sandbox.command("runs", "show").stdout)
    for words, told in (
        (("resume",), f"Its items continue with: {shown}\n"),
        (("retry", "broken"), f"Its items continue with: {shown}\n"),
        (("parallel", "3"), f"Its items continue with: {shown} --parallel 3\n"),
        (("budget", "2.5"), f"Its items continue with: {shown} --budget 2.5\n"),
        (("status",), f"See how it went with: agentos runs show {run}\n"),
        (("stop",), "`agentos runs` lists runs.\n"),
    ):
        for named, why in (
            ((), "no run is under way. "),
            ((run,), f"run {run} is over: ctl {words[0]} is for a live run. "),
        ):
            refused = sandbox.command("ctl", *named, *words)
            assert (refused.code, refused.stderr) == (2, f"agentos: error: {why}{told}")
    (sandbox.project / "open").touch()
    assert sandbox.start_command("-c", shown, program=Path("/bin/sh")).wait().code == 1


def test_an_item_that_was_stopped_before_it_started_can_be_wanted_again(sandbox: Sandbox, steered: Started) -> None:
    stopped = status(sandbox, "stop", "more-1")
    assert (stopped["stopped"], stopped["left"]) == (["more-1"], ["more-0", "more-2"])
    told = sandbox.command("ctl", "status").stdout
    assert re.match(r"Running, \d:\d\d so far, 1 at a time\nheld  wait  working \d:\d\d  \d:\d\d\n", told)
    assert told.endswith(
        "2 of 6 items ended: 1 failed, 1 skipped\n1 item stopped: more-1\n2 items not started: more-0, more-2\n"
    )
    twice = sandbox.command("ctl", "stop", "more-1")
    assert (twice.code, "stopped already" in twice.stderr) == (2, True)
    again = status(sandbox, "retry", "more-1")
    assert (again["stopped"], again["left"]) == ([], ["more-0", "more-1", "more-2"])
    status(sandbox, "stop", "held")
    twice = sandbox.command("ctl", "stop", "held")
    assert (twice.code, "already" in twice.stderr) == (2, True)
    steered.wait_for_record("item_ended", item="held", outcome="interrupted")
    assert status(sandbox, "status")["stopped"] == ["held"]
    status(sandbox, "retry", "held")
    (sandbox.project / "open").touch()
    assert steered.wait().code == 1
    assert sandbox.outcomes()["more-1"] == sandbox.outcomes()["held"] == "completed"
    assert of_type(sandbox.records(), "item_ended", "held")[-1]["attempts"] == 1
    no_process_left(sandbox.home)


def test_a_crashed_item_that_is_wanted_again_has_its_retries_again_and_ends_once_more(sandbox: Sandbox) -> None:
    crash = GATE.replace('raise ValueError("not mended yet")', "os._exit(3)").replace("import ", "import os, ", 1)
    (sandbox.project / "crash.py").write_text(crash)
    items = sandbox.write_items(
        {"id": "crashing", "input": {"fails": True}}, {"id": "held", "input": {"gate": "open"}}
    )
    started = sandbox.start_command(
        "run", "--graph", "crash.py:graph", "--items", str(items), "--parallel", "2", "--retry", "1"
    )
    started.wait_for_record("item_ended", item="crashing")
    sandbox.command("ctl", "retry", "crashing")
    eventually(lambda: len(of_type(sandbox.records(), "item_ended", "crashing")) == 2, "it ends again")
    (sandbox.project / "open").touch()
    assert started.wait().code == 1
    told = [r["type"] for r in sandbox.records() if r.get("item") == "crashing"]
    assert [name for name in told if name in ("item_started", "item_retried", "item_ended")] == [
        *("item_started", "item_retried", "item_started", "item_ended"),
        *("item_started", "item_retried", "item_started", "item_ended"),
    ]
