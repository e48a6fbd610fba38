"""The page without a mouse: everything is reached and done by keys alone."""

from __future__ import annotations

import pytest
from harness import Sandbox, Started, eventually
from test_live_run import start
from windows import OpenWindow, Window, dashboard_of, only_run


@pytest.fixture
def under_way(sandbox: Sandbox) -> Started:
    started = start(
        sandbox,
        {"id": "broken", "priority": 9, "input": {"fails": True}},
        *({"id": f"held-{number}", "input": {"gate": "open"}} for number in range(5)),
    )
    started.wait_for_record("item_ended", item="broken")
    started.wait_for_record("node_started", item="held-1", node="wait")
    return started


@pytest.fixture
def shown(sandbox: Sandbox, under_way: Started, window: OpenWindow) -> Window:
    made = window(dashboard_of(sandbox).run(only_run(sandbox)))
    made.row("held-4").wait_for()
    return made


def active(shown: Window) -> str:
    """The label of the row that the keys are at."""
    return str(shown.page.locator(".item-row.is-active .label").inner_text())


def focused(shown: Window) -> str:
    return str(
        shown.page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
    )


def press(shown: Window, *keys: str) -> None:
    for key in keys:
        shown.page.keyboard.press(key)


def test_items_are_walked_opened_and_left(shown: Window) -> None:
    press(shown, "j")
    first = active(shown)
    press(shown, "j", "j", "k", "k")
    assert active(shown) == first
    press(shown, "End")
    last = active(shown)
    assert last != first
    press(shown, "Enter")
    shown.page.get_by_role("heading", name=last).wait_for()
    press(shown, "Escape")
    shown.row(last).wait_for()
    assert active(shown) == last


def test_search_narrows_the_list_and_escape_clears_it(shown: Window) -> None:
    press(shown, "/")
    shown.page.keyboard.type("held-3")
    eventually(lambda: shown.page.locator(".item-row:visible").count() == 1, "one item matches")
    press(shown, "Enter")
    assert active(shown) == "held-3"
    press(shown, "/", "Escape")
    eventually(lambda: shown.page.locator(".item-row:visible").count() == 6, "every item is back")


def test_the_shortcuts_are_listed_and_the_focus_comes_back(shown: Window) -> None:
    press(shown, "j")
    press(shown, "?")
    shown.page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    press(shown, "Escape")
    shown.page.get_by_role("dialog").wait_for(state="detached")
    assert focused(shown) == "Items"


def test_a_failed_item_is_retried_by_keys_alone(sandbox: Sandbox, under_way: Started, shown: Window) -> None:
    for _ in range(40):
        if focused(shown) == "Retry broken":
            break
        press(shown, "Tab")
    assert focused(shown) == "Retry broken"
    outline = shown.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press(shown, "Enter")
    under_way.wait_for_record("control_taken", act="retry", target="broken")
    (sandbox.project / "open").touch()
    shown.check_state("Done")


def test_a_button_that_is_drawn_anew_keeps_the_focus(under_way: Started, shown: Window) -> None:
    shown.page.get_by_role("button", name="One item more at once").focus()
    for places in (3, 4):
        press(shown, "Enter")
        under_way.wait_for_record("control_taken", act="parallel", value=places)
        shown.check_sees(f"{places} at once", within=".stepper")
        assert focused(shown) == "One item more at once"


def test_tabs_follow_the_arrows(shown: Window) -> None:
    shown.page.get_by_role("tab", name="Items").focus()
    press(shown, "ArrowRight")
    shown.page.get_by_role("tab", name="Timeline", selected=True).wait_for()
    shown.page.locator("canvas").wait_for()
    assert shown.page.url.endswith("/timeline")
    assert focused(shown) == "Timeline"
    press(shown, "i")
    shown.page.get_by_role("tab", name="Items", selected=True).wait_for()
    assert shown.page.locator(".item-row").count() == 6
