"""A real run in a real browser: it is watched live, steered from the page, and said to be lost when it is."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Sandbox, Started, eventually, of_type
from windows import Dashboard, OpenWindow, Window, dashboard_of, only_run

GATE = """
import time
from pathlib import Path
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    gate: str
    fails: bool

def wait(state):
    print("waiting for the gate <b>not bold</b>", flush=True)
    while state.get("gate") and not Path(state["gate"]).exists():
        time.sleep(0.01)
    return {}

def finish(state):
    print("x" * 5000, flush=True)
    if state.get("fails") and not Path("mended").exists():
        raise ValueError("not mended yet")
    print("Error: this is only a word", flush=True)
    return {}

graph = StateGraph(State)
graph.add_node("wait", wait)
graph.add_node("finish", finish)
graph.add_edge(START, "wait")
graph.add_edge("wait", "finish")
graph.add_edge("finish", END)
"""


def start(sandbox: Sandbox, *items: dict[str, Any], parallel: int = 2) -> Started:
    (sandbox.project / "gate.py").write_text(GATE)
    path = sandbox.write_items(*items)
    return sandbox.start_command("run", "--graph", "gate.py:graph", "--items", str(path), "--parallel", str(parallel))


@pytest.fixture
def steered(sandbox: Sandbox) -> Started:
    """`held` and `other` wait for their gates, `broken` has failed, `later` has not started."""
    started = start(
        sandbox,
        {"id": "broken", "priority": 9, "input": {"fails": True}},
        {"id": "held", "priority": 8, "input": {"gate": "open"}},
        {"id": "other", "priority": 7, "input": {"gate": "open-other"}},
        {"id": "later", "input": {}},
    )
    started.wait_for_record("item_ended", item="broken")
    for item in ("held", "other"):
        started.wait_for_record("node_started", item=item, node="wait")
    return started


@pytest.fixture
def dashboard(sandbox: Sandbox, steered: Started) -> Dashboard:
    return dashboard_of(sandbox)


@pytest.fixture
def open_run(sandbox: Sandbox, dashboard: Dashboard, window: OpenWindow) -> Window:
    return window(dashboard.run(only_run(sandbox)))


def open_gates(sandbox: Sandbox) -> None:
    (sandbox.project / "open").touch()
    (sandbox.project / "open-other").touch()


def test_what_happens_is_on_the_page_without_a_reload(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    open_run.check_state("Running")
    open_run.check_row("held", "wait")
    open_run.check_row("later", "waits for its turn")
    open_run.check_row("broken", "failed")
    open_run.page.evaluate("window.isTheSamePage = true")
    open_gates(sandbox)
    open_run.check_row("held", "completed")
    open_run.check_row("later", "completed")
    open_run.check_state("Done")
    assert open_run.page.evaluate("window.isTheSamePage")
    assert open_run.page.title().startswith("(1) 4/4")
    steered.wait()


def test_a_run_is_found_from_the_list_and_leads_back(dashboard: Dashboard, window: OpenWindow) -> None:
    home = window(dashboard.control)
    home.page.locator("a.card").click()
    home.check_state("Running")
    home.page.get_by_role("link", name="Runs", exact=True).click()
    home.page.locator("a.card").wait_for()
    assert "token" not in home.page.url


def test_it_is_paused_and_resumed_from_the_page(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    open_run.page.get_by_role("button", name="Pause").click()
    open_run.check_state("Paused")
    open_run.check_sees("(page)")
    open_gates(sandbox)
    steered.wait_for_record("node_finished", item="held", node="wait")
    assert not of_type(sandbox.records(), "node_started", "later")
    open_run.page.locator(".controls").get_by_role("button", name="Resume").click()
    open_run.check_state("Done")
    acts = [(record["act"], "(page)" in record["by"]) for record in of_type(sandbox.records(), "control_taken")]
    assert acts == [("pause", True), ("resume", True)]
    steered.wait()


def test_one_item_is_stopped_another_retried_and_the_places_changed(
    sandbox: Sandbox, steered: Started, open_run: Window
) -> None:
    page = open_run.page
    open_run.row("held").get_by_role("link").click()
    page.get_by_role("button", name="Stop this item held").click()
    page.get_by_label("Reason").fill("not today")
    page.get_by_role("dialog").get_by_role("button", name="Stop this item").click()
    taken = steered.wait_for_record("control_taken", act="stop", target="held")
    assert taken["reason"] == "not today"
    # Until the answer is there the key would close the dialog, and not the item.
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="One item more at once").click()
    steered.wait_for_record("control_taken", act="parallel", value=3)
    (sandbox.project / "mended").touch()
    page.locator(".needs").get_by_role("button", name="Retry broken").click()
    steered.wait_for_record("control_taken", act="retry", target="broken")
    open_run.check_row("broken", "completed")
    open_gates(sandbox)
    open_run.check_state("Done")
    open_run.check_row("other", "completed")
    open_run.check_row("held", "interrupted")
    assert steered.wait().code == 130


def test_a_killed_coordinator_is_said_with_what_to_do(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    open_run.check_state("Running")
    steered.kill()
    open_run.check_state("Coordinator lost")
    open_run.check_sees("agentos run")
    assert open_run.page.get_by_role("button", name="Pause").count() == 0
    open_run.row("held").wait_for()


def test_the_log_is_followed_filtered_and_folded(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    page = open_run.page
    open_run.row("held").get_by_role("link").click()
    log = page.locator(".log")
    log.get_by_text("for the gate <b>not bold</b>").wait_for()
    open_gates(sandbox)
    log.get_by_text("Error: this is only a word").wait_for()
    assert len(log.locator(".line", has_text="xxx").inner_text()) < 1000
    log.get_by_role("button", name="more characters").click()
    assert "x" * 5000 in log.inner_text()
    page.get_by_role("button", name="First error").click()
    assert "Error: this" in page.locator(".is-found").inner_text()
    page.get_by_label("Filter lines of the log").fill("gate")
    eventually(lambda: log.locator(".line:visible").count() == 1, "only what matches is shown")
    steered.wait()


def test_a_reader_sees_everything_and_can_change_nothing(
    sandbox: Sandbox, dashboard: Dashboard, window: OpenWindow
) -> None:
    reader = window(f"{dashboard.read_only}#/runs/{only_run(sandbox)}")
    reader.check_state("Running")
    reader.check_row("held", "wait")
    for name in ("Pause", "Stop…", "Retry broken"):
        assert reader.page.get_by_role("button", name=name).count() == 0
