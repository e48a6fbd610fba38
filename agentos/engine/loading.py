"""Whose model calls are that a graph's module makes when it is imported: no item's. Pure."""

from __future__ import annotations

from typing import Final

LOADING: Final = "(loading the graph)"
"""No item has such an id."""
_ON = f"{LOADING} on "


def loading_on(node: str) -> str:
    """On this node of a cluster: several load at once, and each ends its calls when it is done."""
    return f"{_ON}{node}" if node else LOADING


def is_loading(owner: str) -> bool:
    return owner == LOADING or owner.startswith(_ON)
