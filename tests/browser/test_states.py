"""Every state looks right and says what to do next: empty, one item, 2,000, damaged records, an old address."""

from __future__ import annotations

import json

from harness import Sandbox, eventually
from test_details import events_of
from test_live_run import start
from windows import OpenWindow, Window, dashboard_of, only_run
from written import written_run

from agentos.clock import stamp, utc_now
from agentos.events import RunStarted, Stamped
from agentos.outcomes import APPROVED
from agentos.reporters.audit import AuditReporter
from agentos.reporters.logs import log_name

MANY = 2_000
ROWS_IN_THE_DOCUMENT = 80


def test_an_empty_home_says_how_to_start(sandbox: Sandbox, window: OpenWindow) -> None:
    shown = window(dashboard_of(sandbox).control)
    shown.check_sees("no runs yet")
    assert "agentos" in shown.page.locator(".command").inner_text()
    for place in ("History", "Workstreams", "Keys"):
        shown.page.get_by_role("link", name=place).click()
        shown.page.locator(f"main:has(h1:text-is('{place}')) .empty h2").wait_for()


def test_a_run_that_is_not_there_is_said(sandbox: Sandbox, window: OpenWindow) -> None:
    shown = window(dashboard_of(sandbox).run("nonsense"))
    shown.check_sees("no such run")


def test_one_item(sandbox: Sandbox, window: OpenWindow) -> None:
    start(sandbox, {"id": "single", "input": {}}).wait()
    shown = window(dashboard_of(sandbox).run(only_run(sandbox)))
    shown.check_state("Done")
    shown.check_row("single", "completed")
    assert not shown.page.locator(".needs").is_visible()
    shown.row("single").click()
    shown.page.get_by_role("tab", name="Log", selected=True).wait_for()


def rows(shown: Window) -> int:
    return int(shown.page.locator(".item-row").count())


def test_two_thousand_items_scroll_with_few_rows_in_the_document(sandbox: Sandbox, window: OpenWindow) -> None:
    """Almost none of them has started: the plan is what makes the list long."""
    started = start(sandbox, *({"id": f"n{number:04}", "input": {"gate": "open"}} for number in range(MANY)))
    started.wait_for_record("node_started", node="wait")
    shown = window(dashboard_of(sandbox).run(only_run(sandbox)))
    shown.row("n0000").wait_for()
    assert rows(shown) < ROWS_IN_THE_DOCUMENT
    shown.page.keyboard.press("j")
    shown.page.keyboard.press("End")
    shown.row(f"n{MANY - 1:04}").wait_for()
    assert rows(shown) < ROWS_IN_THE_DOCUMENT
    shown.page.evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
    eventually(lambda: shown.page.locator(".item-row .label").all_inner_texts()[0] not in ("n0000", ""), "the middle")
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("n1234")
    shown.row("n1234").wait_for()
    assert rows(shown) <= 2
    started.kill()


def test_damaged_and_foreign_lines_are_said_and_the_rest_is_shown(sandbox: Sandbox, window: OpenWindow) -> None:
    start(sandbox, {"id": "single", "input": {}}).wait()
    (path,) = sandbox.home.glob("logs/parallel/*/workflow-audit.jsonl")
    lines = path.read_text().splitlines()
    lines.insert(2, "{not json")
    lines.insert(3, json.dumps({**json.loads(lines[1]), "v": 99, "type": "thing_from_the_future"}))
    path.write_text("\n".join(lines) + "\n")
    shown = window(dashboard_of(sandbox).run(only_run(sandbox)))
    shown.check_row("single", "completed")
    shown.page.locator(".problem").wait_for()


def test_an_address_without_its_token_is_refused_in_words(sandbox: Sandbox, window: OpenWindow) -> None:
    dashboard = dashboard_of(sandbox)
    shown = window(dashboard.control.partition("?")[0])
    assert "needs its link" in shown.page.locator("body").inner_text()


def test_the_page_asks_only_its_own_server(sandbox: Sandbox, window: OpenWindow) -> None:
    start(sandbox, {"id": "single", "input": {}}).wait()
    dashboard = dashboard_of(sandbox)
    shown = window(dashboard.run(only_run(sandbox)))
    shown.row("single").click()
    shown.page.get_by_role("tab", name="Log").wait_for()
    origin = dashboard.control.partition("/?")[0]
    assert shown.requests
    assert [address for address in shown.requests if not address.startswith(origin)] == []


def test_a_run_that_is_just_starting_gets_its_items(sandbox: Sandbox, window: OpenWindow) -> None:
    with written_run(sandbox.home, [], is_live=True) as run:
        shown = window(dashboard_of(sandbox).run(run))
        shown.check_sees("just starting")
        begun = RunStarted(workflow="flow", project_dir="/shop", items=("a", "b"), parallel=1, pid=1)
        audit = AuditReporter(sandbox.home / "logs/parallel" / run)
        audit.handle(Stamped(1, stamp(utc_now(), "milliseconds"), run, begun))
        shown.check_row("b", "waits for its turn")
        audit.close()


def test_a_long_log_is_loaded_whole_while_it_grows(sandbox: Sandbox, window: OpenWindow) -> None:
    with written_run(sandbox.home, events_of(APPROVED)[:4], is_live=True) as run:
        log = sandbox.home / "logs/parallel" / run / log_name("1")
        log.write_text("".join(f"line {number} {'x' * 90}\n" for number in range(1, 8001)))
        shown = window(dashboard_of(sandbox).run(run, "/items/1/log"))
        shown.page.get_by_role("button", name="Load it").click()
        with log.open("a") as file:
            for number in range(8001, 8101):
                file.write(f"line {number} end\n")
                file.flush()
        last = shown.page.locator(".log .line").last
        eventually(lambda: last.text_content() == "line 8100 end\n", "its last line")
        assert shown.page.locator(".log .line").count() == 8100
        assert last.get_attribute("data-number") == "8100"
