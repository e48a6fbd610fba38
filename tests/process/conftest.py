"""Fixtures of the process tests: one sandbox a test, and proof at its end that nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    try:
        yield made
    finally:
        made.close()
