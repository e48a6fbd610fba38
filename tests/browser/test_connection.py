"""The connection between page and server: when it breaks it is said, and when it is back nothing is missing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from harness import Sandbox, Started, eventually
from test_live_run import open_gates, start
from windows import FLAGS, Dashboard, Window, dashboard_of, only_run
from wire import Wire


@pytest.fixture
def started(sandbox: Sandbox) -> Started:
    made = start(sandbox, {"id": "held", "input": {"gate": "open"}}, {"id": "later", "input": {}}, parallel=1)
    made.wait_for_record("node_started", item="held", node="wait")
    return made


@pytest.fixture
def dashboard(sandbox: Sandbox, started: Started) -> Dashboard:
    return dashboard_of(sandbox)


@pytest.fixture
def wire(dashboard: Dashboard) -> Iterator[Wire]:
    made = Wire(urlsplit(dashboard.control).port or 0)
    yield made
    made.close()


@pytest.fixture
def shown(chromium: Any, chromium_path: str, sandbox: Sandbox, dashboard: Dashboard, wire: Wire) -> Iterator[Window]:
    """A browser that goes to the page's address by the wire."""
    rule = f"MAP 127.0.0.1:{urlsplit(dashboard.control).port} 127.0.0.1:{wire.port}"
    arguments = [*FLAGS, f"--host-resolver-rules={rule}"]
    browser = chromium.browser_type.launch(executable_path=chromium_path, args=arguments)
    made = Window(browser.new_page())
    made.page.clock.install()
    made.page.goto(dashboard.run(only_run(sandbox)))
    made.check_state("Running")
    yield made
    browser.close()


def test_a_cut_is_said_and_nothing_is_missing_afterwards(
    sandbox: Sandbox, started: Started, wire: Wire, shown: Window
) -> None:
    wire.cut()
    shown.check_sees("Connection lost", within="#banner")
    open_gates(sandbox)
    started.wait()
    shown.check_row("held", "wait")
    # From here on it does not try by itself: the button has to.
    shown.page.clock.pause_at(shown.page.evaluate("Date.now()") / 1000 + 1)
    wire.mend()
    eventually(lambda: has_tried_now(shown), "the button connects")
    shown.page.clock.resume()
    shown.check_state("Done")
    shown.check_row("held", "completed")
    shown.check_row("later", "completed")
    assert shown.wrongs == []


def has_tried_now(shown: Window) -> bool:
    """An attempt under way when the wire was mended may take the button away, or fail after the first press."""
    shown.page.evaluate("document.querySelector('.lost-banner button')?.click()")
    return shown.page.locator(".lost-banner").count() == 0


def test_a_server_that_was_closed_is_said_with_how_to_start_it(dashboard: Dashboard, shown: Window) -> None:
    dashboard.started.process.terminate()
    dashboard.started.wait()
    shown.check_sees("Connection lost", within="#banner")
    shown.check_sees("agentos dashboard", within="#banner")
    assert shown.page.locator(".item-row").count() == 2


@pytest.mark.slow
def test_a_server_that_is_frozen_is_said_and_comes_back(dashboard: Dashboard, shown: Window) -> None:
    """It closes no connection: only its silence tells."""
    dashboard.started.kill(signal.SIGSTOP)
    try:
        shown.check_sees("Connection lost", within="#banner")
    finally:
        dashboard.started.kill(signal.SIGCONT)
    shown.page.locator(".lost-banner").wait_for(state="detached")
    shown.check_state("Running")
