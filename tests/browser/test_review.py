"""Documents in the browser: read, approved and sent back from the page; what a model wrote is only text."""

from __future__ import annotations

from backlog import OFFLINE, Backlog, issue_text
from harness import Finished
from windows import OpenWindow, dashboard_of, only_run

COMMAND = ("--all", "--parallel", "2", "--review", "draft", *OFFLINE)
ATTACK = "<img src=x onerror=alert(1)><script>alert(2)</script>[click](javascript:alert(3))"


def parked(backlog: Backlog) -> Finished:
    backlog.add_issues(1, 2)
    finished = backlog.lld(*COMMAND)
    assert finished.code == 3, finished.stdout + finished.stderr
    return finished


def test_a_draft_is_approved_and_another_sent_back_from_the_page(backlog: Backlog, window: OpenWindow) -> None:
    parked(backlog)
    shown = window(dashboard_of(backlog).run(only_run(backlog)))
    assert shown.row("LLD-1").locator(".dots .d-warn").get_attribute("title") == "G1_draft_gate"
    needs = shown.page.locator(".needs")
    needs.get_by_role("button", name="Approve LLD-1").click()
    dialog = shown.page.get_by_role("dialog")
    dialog.get_by_text("Add feature number 1").first.wait_for()
    dialog.get_by_role("button", name="Approve").click()
    dialog.wait_for(state="detached")
    needs.get_by_text("answered: it continues with the next run").wait_for()
    assert needs.get_by_role("button", name="Approve LLD-1").count() == 0
    needs.get_by_role("button", name="Revise… LLD-2").click()
    shown.page.get_by_label("What should be changed?").fill("split the store")
    shown.page.get_by_role("button", name="Send back").click()
    shown.page.get_by_role("dialog").wait_for(state="detached")
    listed = backlog.command("review", "--all").stdout
    assert "LLD-1  draft gate, round 1: approved" in listed, listed
    assert "split the store" in listed, listed
    backlog.lld(*COMMAND)
    assert "split the store" in backlog.lineage_text("LLD-2", "prompt-revise")


def test_its_documents_and_rounds_are_read_on_the_page(backlog: Backlog, window: OpenWindow) -> None:
    parked(backlog)
    backlog.command("review", "LLD-1", "--revise", "split the store")
    backlog.lld(*COMMAND)
    run = backlog.run_dirs()[-1].name
    shown = window(dashboard_of(backlog).run(run, "/items/1/documents"))
    shown.page.get_by_role("tab", name="Documents").wait_for()
    shown.page.locator(".prose").get_by_text("Add feature number 1").first.wait_for()
    shown.page.get_by_role("heading", name="Between rounds").wait_for()
    shown.page.locator(".side button").last.click()
    shown.page.locator(".diff-add, .empty-line").first.wait_for()
    assert shown.page.get_by_role("button", name="Approve LLD-1").is_visible()


def test_what_an_issue_says_is_never_obeyed(backlog: Backlog, window: OpenWindow) -> None:
    backlog.add_issues(1, text=lambda number: issue_text(number, title=f"Fines {ATTACK}"))
    backlog.lld(*COMMAND)
    shown = window(dashboard_of(backlog).run(only_run(backlog)))
    shown.row("LLD-1").wait_for()
    for tab, awaited in (("review", "Fines"), ("documents", "Fines"), ("log", "N1_design")):
        shown.page.goto(shown.page.url.partition("#")[0] + f"#/runs/{only_run(backlog)}/items/1/{tab}")
        shown.page.locator(f"[aria-labelledby=tab-{tab}]").get_by_text(awaited).first.wait_for()
        assert shown.page.locator("main script, main img, main [onerror], main a[href^=javascript]").count() == 0
    assert shown.wrongs == []
