"""How many items each node of a cluster takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a node has."""

    total: Mapping[str, float]
    available: Mapping[str, float]


def most_places(offer: Mapping[str, float], need: Mapping[str, float], max_per_node: int) -> int:
    """How many items a node with these resources carries. `max_per_node` of 0 is no limit of its own."""
    carried = min((int(offer.get(name, 0.0) / amount + 1e-9) for name, amount in need.items() if amount), default=1)
    return min(carried, max_per_node) if max_per_node else carried


def fair_share(parallel: int, node_count: int) -> int:
    """How many items one of so many nodes takes, when all take as many."""
    return -(-parallel // max(1, node_count))


def places_on(offer: Offer, need: Mapping[str, float], *, max_per_node: int, share: int) -> int:
    """Places to ask of the node now: what is free, up to its share; one, to wait for, when nothing is. 0: never."""
    if most_places(offer.total, need, max_per_node) == 0:
        return 0
    return max(1, min(share, most_places(offer.available, need, max_per_node)))
