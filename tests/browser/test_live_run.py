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
    print("waiting for the gate <b>not bold</b> \\x1b[31min red\\x1b[0m", flush=True)
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


def start(sandbox: Sandbox, *items: dict[str, Any], parallel: int = 2, options: tuple[str, ...] = ()) -> Started:
    (sandbox.project / "gate.py").write_text(GATE)
    path = sandbox.write_items(*items)
    given = ("--graph", "gate.py:graph", "--items", str(path), "--parallel", str(parallel), *options)
    return sandbox.start_command("run", *given)


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


def test_an_item_stopped_before_its_turn_says_so_and_starts_after_all(
    sandbox: Sandbox, steered: Started, open_run: Window
) -> None:
    page = open_run.page
    open_run.row("later").get_by_role("link").click()
    page.get_by_role("button", name="Stop this item later").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop this item").click()
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_role("button", name="Start it after all later").wait_for()
    page.keyboard.press("Escape")
    open_run.check_row("later", "stopped")
    open_run.row("later").get_by_role("link").click()
    page.get_by_role("button", name="Start it after all later").click()
    page.get_by_role("button", name="Stop this item later").wait_for()
    open_gates(sandbox)
    page.keyboard.press("Escape")
    open_run.check_row("later", "completed")
    assert steered.wait().code == 1


def test_an_item_is_skipped_and_the_run_stopped_with_reasons(
    sandbox: Sandbox, steered: Started, open_run: Window
) -> None:
    page = open_run.page
    open_run.row("later").get_by_role("link").click()
    page.get_by_role("button", name="Skip later").click()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("dialog").get_by_role("button", name="Skip this item").click()
    assert steered.wait_for_record("control_taken", act="skip", target="later")["reason"] == "not needed"
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("Escape")
    open_run.check_row("later", "skipped")
    page.get_by_role("button", name="Stop…").click()
    page.get_by_label("Reason").fill("enough for today")
    page.get_by_role("dialog").get_by_role("button", name="Stop the run").click()
    assert steered.wait_for_record("control_taken", act="stop")["reason"] == "enough for today"
    open_run.check_state("Done")
    open_run.check_row("held", "interrupted")
    open_run.check_sees("Resume with")
    assert steered.wait().code == 130


def test_a_budget_is_raised_and_one_that_is_none_refused(sandbox: Sandbox, window: OpenWindow) -> None:
    started = start(sandbox, {"id": "held", "input": {"gate": "open"}}, options=("--budget", "2"))
    started.wait_for_record("node_started", item="held", node="wait")
    shown = window(dashboard_of(sandbox).run(only_run(sandbox)))
    shown.check_sees("of $2.00", within=".strip")
    shown.page.get_by_role("button", name="Budget…").click()
    shown.page.get_by_label("Budget in US dollars").fill("-1")
    shown.page.get_by_role("button", name="Set the budget").click()
    assert shown.page.get_by_role("dialog").is_visible()
    shown.page.get_by_label("Budget in US dollars").fill("5.5")
    shown.page.get_by_role("button", name="Set the budget").click()
    started.wait_for_record("control_taken", act="budget", value=5.5)
    shown.check_sees("of $5.50", within=".strip")
    open_gates(sandbox)
    started.wait()


def test_a_killed_coordinator_is_said_with_what_to_do(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    open_run.check_state("Running")
    steered.kill()
    open_run.check_state("Coordinator lost")
    open_run.check_sees("agentos run")
    assert open_run.page.get_by_role("button", name="Pause").count() == 0
    open_run.check_row("held", "not ended")
    run = open_run.page.url.partition("#")[0] + f"#/runs/{only_run(sandbox)}"
    for item, checkpoint in (("broken", "continues after wait"), ("held", "starts over")):
        open_run.page.goto(f"{run}/items/{item}/about")
        open_run.check_sees(checkpoint)
    open_run.check_sees("the coordinator's process died")
    assert open_run.page.get_by_text("under way").count() == 0


def test_the_log_is_followed_filtered_and_folded(sandbox: Sandbox, steered: Started, open_run: Window) -> None:
    page = open_run.page
    open_run.row("held").get_by_role("link").click()
    log = page.locator(".log")
    log.get_by_text("for the gate <b>not bold</b>").wait_for()
    assert log.locator(".ansi-fg-1").inner_text() == "in red"
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
