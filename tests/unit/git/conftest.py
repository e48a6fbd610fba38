"""Every test here has a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_own_home(own_home: Path) -> None:
    """Nothing of the user's own configuration is read."""
