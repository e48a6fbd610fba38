"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow and live tests run when they are asked for, by `-m slow` or `make test-all`."""
    if config.getoption("markexpr"):
        return
    kept, left_out = [], []
    for item in items:
        is_left_out = item.get_closest_marker("slow") or item.get_closest_marker("live")
        (left_out if is_left_out else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
