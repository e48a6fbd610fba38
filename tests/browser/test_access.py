"""For everybody: axe finds nothing serious, no screen cuts anything off, colours and motion are as asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backlog import Backlog
from harness import eventually
from test_review import parked
from windows import AXE_PATH, PHONE, WIDE, Dashboard, OpenWindow, Window, dashboard_of, only_run

SIZES = ({"width": 320, "height": 640}, PHONE, {"width": 768, "height": 1024}, WIDE, {"width": 2560, "height": 1300})


@pytest.fixture
def dashboard(backlog: Backlog) -> Dashboard:
    """Two drafts wait for somebody."""
    parked(backlog)
    return dashboard_of(backlog)


def visited(shown: Window, run: str) -> Iterator[str]:
    """Go to each view in turn, and tell where. The one before stays for a while: what is awaited is not in it."""
    base = shown.page.url.partition("#")[0]
    for place, awaited in (
        ("#/", "main:has(h1:text-is('Runs')) table.plain"),
        (f"#/runs/{run}", ".item-row"),
        (f"#/runs/{run}/timeline", "#timeline-sums td"),
        (f"#/runs/{run}/keys", "[aria-labelledby=tab-keys] .empty"),
        (f"#/runs/{run}/notes", "[aria-labelledby=tab-notes]"),
        (f"#/runs/{run}/items/1/review", "[aria-labelledby=tab-review] .prose"),
        (f"#/runs/{run}/items/1/log", ".log .line"),
        (f"#/runs/{run}/items/1/documents", "[aria-labelledby=tab-documents] .prose"),
        (f"#/runs/{run}/items/1/about", "[aria-labelledby=tab-about] table.plain"),
        ("#/history", "main:has(h1:text-is('History')) table.plain"),
        ("#/workstreams", "main:has(h1:text-is('Workstreams')) .empty"),
        ("#/keys", "main:has(h1:text-is('Keys')) .empty"),
    ):
        shown.page.goto(base + place)
        shown.page.locator(awaited).first.wait_for()
        yield place


@pytest.mark.skipif(not AXE_PATH.exists(), reason="needs axe-core (npm install --prefix .venv/axe axe-core)")
@pytest.mark.parametrize(("scheme", "size"), [("dark", WIDE), ("light", PHONE), ("light", WIDE)], ids=str)
def test_axe_finds_nothing_serious(
    backlog: Backlog, dashboard: Dashboard, window: OpenWindow, scheme: str, size: dict[str, int]
) -> None:
    shown = window(dashboard.control, size=size, color_scheme=scheme)
    found = {place: shown.serious_findings() for place in visited(shown, only_run(backlog))}
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


def test_no_view_is_wider_than_its_screen(backlog: Backlog, dashboard: Dashboard, window: OpenWindow) -> None:
    shown = window(dashboard.control)
    for place in visited(shown, only_run(backlog)):
        for size in SIZES:
            shown.page.set_viewport_size(size)
            wide = shown.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size["width"], (place, size, wide)


def test_the_theme_is_the_systems_until_somebody_chooses(dashboard: Dashboard, window: OpenWindow) -> None:
    shown = window(dashboard.control, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = shown.page.evaluate(background)
    shown.page.emulate_media(color_scheme="light")
    light = shown.page.evaluate(background)
    assert dark != light
    shown.page.get_by_role("button", name="Theme").click()
    assert shown.page.evaluate(background) == dark
    shown.page.reload()
    assert shown.page.evaluate(background) == dark


def test_the_timeline_is_drawn_in_the_colours_of_the_theme(
    backlog: Backlog, dashboard: Dashboard, window: OpenWindow
) -> None:
    shown = window(dashboard.run(only_run(backlog), "/timeline"), color_scheme="dark")
    shown.page.locator("#timeline-sums td").first.wait_for()

    def lane() -> list[int]:
        pixel = "document.querySelector('canvas').getContext('2d').getImageData(70, 45, 1, 1).data"
        return list(shown.page.evaluate(f"[...{pixel}].slice(0, 3)"))

    assert eventually(lambda: max(lane()) < 64, "a dark lane")
    shown.page.emulate_media(color_scheme="light")
    assert eventually(lambda: min(lane()) > 192, "a light lane")


def test_nothing_moves_for_who_asked_for_no_motion(
    backlog: Backlog, dashboard: Dashboard, window: OpenWindow
) -> None:
    shown = window(dashboard.run(only_run(backlog)), reduced_motion="reduce")
    shown.row("LLD-1").wait_for()
    moving = "[...document.querySelectorAll('*')].filter(one => one.getAnimations({subtree: true}).length).length"
    assert shown.page.evaluate(moving) == 0
