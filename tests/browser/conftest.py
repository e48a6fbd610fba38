"""Fixtures of the browser tests: a real Chromium, and windows in which nothing may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from windows import FLAGS, WIDE, OpenWindow, Window


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.needs_browser)


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Any) -> Iterator[OpenWindow]:
    """Opens an address in a browser that knows nothing of the one before. At the end, nothing may have gone wrong."""
    contexts, windows = [], []

    def opened(address: str, *, size: dict[str, int] = WIDE, **choices: Any) -> Window:
        context = chromium.new_context(viewport=size, **choices)
        contexts.append(context)
        made = Window(context.new_page())
        windows.append(made)
        made.page.goto(address)
        return made

    yield opened
    wrongs = [wrong for each in windows for wrong in each.wrongs]
    for context in contexts:
        context.close()
    assert wrongs == []
