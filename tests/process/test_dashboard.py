"""The installed `agentos dashboard` over real runs: live events, control over their sockets, answers, a clean end."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from backlog import OFFLINE, Backlog
from harness import Sandbox, Started, eventually, no_process_left, of_type

GATE = """
import time
from pathlib import Path
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    title: str
    gate: str

def wait(state):
    print("waiting for", state["gate"])
    while not Path(state["gate"]).exists():
        time.sleep(0.01)
    return {}

def finish(state):
    return {}

graph = StateGraph(State)
graph.add_node("wait", wait)
graph.add_node("finish", finish)
graph.add_edge(START, "wait")
graph.add_edge("wait", "finish")
graph.add_edge("finish", END)
"""
HEADER = {"X-AgentOS-Control": "1"}


class Page:
    """A browser's requests to a dashboard that runs."""

    def __init__(self, sandbox: Sandbox, *options: str) -> None:
        self.command: Started = sandbox.start_command("dashboard", "--json", *options)
        line = eventually(lambda: self.command.stdout().strip(), "the dashboard's addresses")
        self.addresses: dict[str, str] = json.loads(line)

    def reader(self, link: str) -> httpx.Client:
        client = httpx.Client(
            base_url=self.addresses["address"], follow_redirects=True, timeout=60.0, trust_env=False
        )
        client.headers["Origin"] = self.addresses["address"]
        assert client.get(self.addresses[link]).status_code == 200
        return client


def follow(client: httpx.Client, path: str) -> Iterator[tuple[str, Any]]:
    """Name and data of each event, as they come."""
    name = ""
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def until(events: Iterator[tuple[str, Any]], is_meant: Any) -> Any:
    return next(data for name, data in events if is_meant(name, data))


def test_a_run_is_seen_steered_and_lost_live_and_the_dashboard_leaves_nothing(sandbox: Sandbox) -> None:
    (sandbox.project / "gate.py").write_text(GATE)
    items = sandbox.write_items(
        *({"id": name, "input": {"title": f"Item {name}", "gate": str(sandbox.root / name)}} for name in "abc")
    )
    run = sandbox.start_command("run", "--graph", "gate.py:graph", "--items", str(items), "--parallel", "2")
    run.wait_for_record("node_started", item="b", node="wait")
    (run_dir,) = sandbox.run_dirs()
    page = Page(sandbox)
    client, here = page.reader("control"), f"/api/runs/{run_dir.name}"

    events = follow(client, f"{here}/events?log=a")
    snapshot = until(events, lambda name, _: name == "snapshot")
    assert [(item["title"], item["words"]) for item in snapshot["items"]][:2] == [
        ("Item a", "wait"),
        ("Item b", "wait"),
    ]
    log = until(events, lambda name, _: name == "log")
    assert "waiting for" in log["text"]

    (sandbox.root / "a").touch()
    until(events, lambda _, data: any(row["outcome"] == "completed" for row in data.get("items", [])))

    assert client.post(f"{here}/control", json={"act": "pause", "reason": "lunch"}, headers=HEADER).json()["ok"]
    paused = until(events, lambda _, data: data.get("strip", {}).get("state") == "paused")
    assert paused["strip"]["detail"].endswith("(page): lunch")
    refused = client.post(f"{here}/control", json={"act": "pause"}, headers=HEADER)
    assert (refused.status_code, refused.json()["error"][:28]) == (409, "the run is paused already, b")
    assert client.post(f"{here}/control", json={"act": "resume"}, headers=HEADER).status_code == 200
    assert client.post(f"{here}/control", json={"act": "stop", "item": "b"}, headers=HEADER).status_code == 200
    until(events, lambda _, data: any(row["outcome"] == "interrupted" for row in data.get("items", [])))
    acts = [(each["act"], each["by"].endswith("(page)")) for each in of_type(sandbox.records(), "control_taken")]
    assert acts == [("pause", True), ("resume", True), ("stop", True)]

    run.kill()
    assert until(events, lambda name, _: name == "end") == {"reason": "lost"}
    ended = client.post(f"{here}/control", json={"act": "pause"}, headers=HEADER)
    assert (ended.status_code, ended.json()["error"]) == (410, "The run is over; there is nothing to pause.")
    assert client.get("/api/home").json()["runs"][0]["words"] == "Coordinator lost"

    client.close()
    page.command.kill(signal.SIGINT)
    assert page.command.wait().code == 0
    no_process_left(sandbox.home)


def test_the_link_to_look_changes_nothing(sandbox: Sandbox) -> None:
    items = sandbox.write_items({"id": "a", "input": {}})
    assert sandbox.run("--parallel", "1", items=items.name).code == 0
    (run_dir,) = sandbox.run_dirs()
    page = Page(sandbox, "--no-open")
    client = page.reader("read_only")
    answer = client.post(f"/api/runs/{run_dir.name}/control", json={"act": "stop"}, headers=HEADER)
    assert answer.status_code == 403
    assert client.get("/api/home").json()["can_control"] is False
    client.close()
    with httpx.Client(base_url=page.addresses["address"], trust_env=False) as stranger:
        assert stranger.get("/api/home").status_code == 401
        assert stranger.get("/api/home", headers={"Host": "evil.example"}).status_code == 403


def test_where_it_must_not_or_cannot_listen_it_says_so(sandbox: Sandbox) -> None:
    remote = sandbox.command("dashboard", "--no-open", "--host", "0.0.0.0")
    assert remote.code == 2
    assert "Add --allow-remote if that is meant" in remote.stderr
    port = re.search(r":(\d+)", Page(sandbox).addresses["address"])
    assert port is not None
    taken = sandbox.command("dashboard", "--no-open", "--port", port[1])
    assert taken.code == 2
    assert f"cannot listen on 127.0.0.1 port {port[1]}" in taken.stderr


def test_without_its_parts_it_says_what_to_install(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "less").mkdir()
    absent = "raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')\n"
    (tmp_path / "less" / "uvicorn.py").write_text(absent)
    done = sandbox.command("dashboard", "--no-open", env={"PYTHONPATH": str(tmp_path / "less")})
    assert done.code == 2
    assert "The dashboard needs uvicorn, which is not installed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def backlog(tmp_path: Path) -> Iterator[Backlog]:
    made = Backlog(tmp_path / "backlog")
    yield made
    made.close()


def test_a_draft_is_approved_from_the_page_and_the_next_run_continues(backlog: Backlog) -> None:
    backlog.add_issues(1)
    command = ("--all", "--review", "draft", *OFFLINE)
    assert backlog.lld(*command).code == 3
    (run_dir,) = backlog.run_dirs()
    client, here = Page(backlog).reader("control"), f"/api/runs/{run_dir.name}"
    review = client.get(f"{here}/item", params={"id": "1"}).json()["review"]
    assert (review["waits"], review["text"][:10]) == (True, "draft gate")
    assert [action["name"] for action in review["actions"]] == ["approve", "revise"]
    assert review["document"]["html"].startswith("<h3>")

    def answer(**said: str) -> httpx.Response:
        return client.post(f"{here}/review", json={"id": "1", **said}, headers=HEADER)

    assert answer(answer="approve", seen="something else").status_code == 409
    assert answer(answer="revise", text=" ", seen=review["seen"]).status_code == 400
    taken = answer(answer="approve", seen=review["seen"])
    assert taken.json()["words"] == "approved; the next run continues it"
    assert backlog.lld(*command).code == 0
    client.close()
