"""A home of its own with the page's server over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from page_site import Site


@pytest.fixture
def site(own_home: Path, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "agentos-home" / "logs" / "parallel")
    yield made
    made.close()
