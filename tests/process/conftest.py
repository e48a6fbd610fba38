"""Fixtures of the process tests: one sandbox a test, and proof at its end that nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from backlog import Backlog
from designs import Designs
from harness import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def backlog(tmp_path: Path) -> Iterator[Backlog]:
    made = Backlog(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def designs(tmp_path: Path) -> Iterator[Designs]:
    made = Designs(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def shared_backlog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backlog]:
    """One for a module, where several tests look at the same run."""
    made = Backlog(tmp_path_factory.mktemp("backlog"))
    try:
        yield made
    finally:
        made.close()
