"""The report in a browser, from disk and without a network: the same views as the page, and not one request."""

from __future__ import annotations

from pathlib import Path

from backlog import OFFLINE, Backlog
from harness import Sandbox
from test_live_run import start
from windows import PHONE, OpenWindow, Window, only_run


def report_of(sandbox: Sandbox | Backlog) -> Path:
    path = Path(sandbox.root) / "report.html"
    told = sandbox.command("runs", "report", "-o", str(path))
    assert told.code == 0, told.stderr
    return path


def opened(window: OpenWindow, path: Path, rest: str = "", **choices: object) -> Window:
    return window(f"{path.as_uri()}{rest}", offline=True, **choices)


def asked_nobody(shown: Window) -> bool:
    return all(address.startswith("file:") for address in shown.requests)


def test_it_opens_from_disk_with_the_views_of_the_page(sandbox: Sandbox, window: OpenWindow) -> None:
    start(sandbox, {"id": "single", "input": {}}, {"id": "broken", "input": {"fails": True}}).wait()
    shown = opened(window, report_of(sandbox))
    shown.check_state("Done")
    shown.check_row("single", "completed")
    shown.check_row("broken", "failed")
    shown.page.locator(".needs").get_by_text("not mended yet").wait_for()
    assert shown.page.get_by_role("button", name="Retry broken").count() == 0
    shown.page.keyboard.press("t")
    shown.page.locator("canvas").wait_for()
    shown.check_sees("at work")
    shown.page.keyboard.press("i")
    shown.row("broken").click()
    shown.page.locator(".log").get_by_text("for the gate <b>not bold</b>").wait_for()
    shown.page.get_by_role("tab", name="Steps and attempts").click()
    shown.check_sees("ValueError")
    shown.page.get_by_role("link", name="History").click()
    shown.check_sees("How long each step takes")
    assert shown.page.get_by_role("button", name="Compare").count() == 0
    assert shown.page.get_by_role("link", name="Workstreams").count() == 0
    shown.page.get_by_role("link", name="Run", exact=True).click()
    shown.check_row("single", "completed")
    assert asked_nobody(shown)


def test_documents_and_rounds_are_in_it_and_it_fits_a_phone(backlog: Backlog, window: OpenWindow) -> None:
    backlog.add_issues(1)
    backlog.lld("--all", *OFFLINE)
    path = report_of(backlog)
    shown = opened(window, path, f"#/runs/{only_run(backlog)}/items/1/documents", size=PHONE)
    shown.page.locator(".prose").get_by_text("Add feature number 1").first.wait_for()
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert asked_nobody(shown)


def test_a_live_run_is_frozen_as_it_stood_and_its_long_log_leads_to_the_file(
    sandbox: Sandbox, window: OpenWindow
) -> None:
    started = start(sandbox, {"id": "held", "input": {"gate": "open"}})
    started.wait_for_record("node_started", item="held", node="wait")
    (run_dir,) = sandbox.run_dirs()
    with (run_dir / "held.log").open("a") as log:
        log.write("a line of many\n" * 400_000)
    shown = opened(window, report_of(sandbox), f"#/runs/{run_dir.name}/items/held/log")
    shown.page.get_by_text("is not in this report").wait_for()
    link = shown.page.get_by_role("link", name="held.log")
    assert link.get_attribute("href") == (run_dir / "held.log").as_uri()
    (sandbox.project / "open").touch()
    started.wait()
    assert "wait" in shown.page.locator(".item-head .state-word").inner_text()
    assert asked_nobody(shown)


def test_without_scripts_it_still_says_how_each_item_ended(sandbox: Sandbox, window: OpenWindow) -> None:
    start(sandbox, {"id": "broken", "input": {"fails": True}}).wait()
    shown = opened(window, report_of(sandbox), java_script_enabled=False)
    assert "not mended yet" in shown.page.locator("main").inner_text()
