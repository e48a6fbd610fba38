"""Runs pytest and reports each test as it ends, on a channel that no test is told about.

Pytest and its plugins are loaded before the project's folders are importable: no file of the project takes their
place, and none of its metadata names a plugin.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

MOST_CHARACTERS = 4_000
PRELOADED = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "unittest")


def preload(*names: str) -> None:
    """Import whole packages: what pytest would import later must not come from the project."""
    for name in names:
        with contextlib.suppress(ImportError):
            package = importlib.import_module(name)
            for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{name}."):
                if not module.name.endswith(("__main__", "win32")):
                    with contextlib.suppress(Exception):
                        importlib.import_module(module.name)


def put_before_packages(folders: list[str]) -> None:
    """Behind the standard library and before installed packages, one of which may be the user's own checkout."""
    places = [n for n, path in enumerate(sys.path) if "site-packages" in path or "dist-packages" in path]
    place = places[0] if places else len(sys.path)
    sys.path[place:place] = folders


def sender(descriptor: int, token: str) -> Callable[[dict[str, Any]], None]:
    # Not where code that writes to every low descriptor looks, and closed in programs that tests start.
    channel = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100 + int.from_bytes(os.urandom(1), "big"))
    os.close(descriptor)
    write, dumps = os.write, json.dumps
    owner = os.getpid()

    def send(record: dict[str, Any]) -> None:
        if os.getpid() != owner:
            return
        data = f"{token} {dumps(record)}\n".encode("ascii", "backslashreplace")
        while data:
            data = data[write(channel, data) :]

    return send


class Reporter:
    """What pytest says about each test."""

    def __init__(self, send: Callable[[dict[str, Any]], None], folders: list[str]) -> None:
        self._send = send
        self._folders = folders
        self._parts: dict[str, int] = {}

    def pytest_load_initial_conftests(self) -> None:
        put_before_packages(self._folders)

    def pytest_collection_finish(self, session: Any) -> None:
        self._send({"collected": [item.nodeid for item in session.items]})

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self._report(report, "collect")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._send({"running": nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        describe = getattr(report, "sub_test_description", None)
        if describe is None:
            self._report(report, report.when)
        elif report.outcome != "passed":
            # Part of a test: pytest counts those that fail or are skipped, each for itself.
            name = f"{report.nodeid} {describe()}"
            self._parts[name] = self._parts.get(name, 0) + 1
            self._report(report, report.when, f"{name} #{self._parts[name]}")

    def _report(self, report: Any, phase: str, name: str = "") -> None:
        text = "" if report.outcome == "passed" else str(getattr(report, "longreprtext", "") or report.longrepr)
        is_expected = hasattr(report, "wasxfail")
        record = {"id": name or report.nodeid, "phase": phase, "outcome": report.outcome, "expected": is_expected}
        self._send({**record, "text": text[-MOST_CHARACTERS:]})


def options(asked: dict[str, Any]) -> list[str]:
    """Options that win over the project's own: whole results, no early stop, no files in the project."""
    has = importlib.util.find_spec
    return [
        *("-p", "no:cacheprovider", "--color=no", "--tb=long", "--maxfail=0", "--continue-on-collection-errors"),
        f"--rootdir={asked['root']}",
        *(("--no-cov",) if has("pytest_cov") else ()),
        *(("-n0",) if has("xdist") else ()),
        *asked["options"],
    ]


def started_coverage(asked: dict[str, Any]) -> Any:
    from coverage import Coverage  # noqa: PLC0415  The project's interpreter may have none.

    coverage = Coverage(data_file=asked["coverage_data"], config_file=False, branch=True, include=asked["measured"])
    coverage.start()
    return coverage


def main() -> None:
    asked = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    preload(*PRELOADED, *(["coverage"] if asked["coverage_data"] else []))
    import pytest  # noqa: PLC0415  The one of the project's interpreter.

    send = sender(asked.pop("channel"), asked.pop("token"))
    arguments = [*options(asked), *asked["tests"]]
    sys.argv = ["pytest", *arguments]
    if asked["is_plugin"]:
        put_before_packages(asked["folders"])
    reporter = Reporter(send, [] if asked["is_plugin"] else asked["folders"])
    coverage = started_coverage(asked) if asked["coverage_data"] else None
    code = int(pytest.main(arguments, plugins=[reporter]))
    if coverage is not None:
        coverage.stop()
        coverage.save()
    sys.stdout.flush()
    # What code under test wants to do at the end comes after the results, and could change them.
    os._exit(code)


if __name__ == "__main__":
    main()
