"""How many items each node of a cluster takes."""

from __future__ import annotations

import pytest

from agentos.engine.backends.ray.placing import Offer, fair_share, most_places, places_on

ONE_CPU = {"CPU": 1.0}


@pytest.mark.parametrize(
    ("offer", "need", "max_per_node", "places"),
    [
        ({"CPU": 8.0}, ONE_CPU, 0, 8),
        ({"CPU": 8.0}, ONE_CPU, 3, 3),
        ({"CPU": 8.0}, {"CPU": 3.0}, 0, 2),
        ({"CPU": 8.0, "GPU": 1.0}, {"CPU": 1.0, "GPU": 0.25}, 0, 4),
        ({"CPU": 8.0}, {"CPU": 1.0, "GPU": 1.0}, 0, 0),
        ({"CPU": 0.3}, {"CPU": 0.1}, 0, 3),
        ({}, ONE_CPU, 0, 0),
    ],
)
def test_the_scarcest_resource_decides(
    offer: dict[str, float], need: dict[str, float], max_per_node: int, places: int
) -> None:
    assert most_places(offer, need, max_per_node) == places


@pytest.mark.parametrize(("parallel", "nodes", "share"), [(9, 3, 3), (10, 3, 4), (1, 3, 1), (5, 0, 5)])
def test_all_nodes_take_as_many(parallel: int, nodes: int, share: int) -> None:
    assert fair_share(parallel, nodes) == share


@pytest.mark.parametrize(
    ("available", "share", "places"),
    [
        (8.0, 3, 3),
        (2.0, 3, 2),  # Another job has the rest.
        (0.0, 3, 1),  # One, to wait for.
    ],
)
def test_a_node_is_asked_for_what_is_free(available: float, share: int, places: int) -> None:
    offer = Offer(total={"CPU": 8.0}, available={"CPU": available})
    assert places_on(offer, ONE_CPU, max_per_node=0, share=share) == places


def test_a_node_that_can_never_take_an_item_is_not_asked() -> None:
    offer = Offer(total={"CPU": 8.0}, available={"CPU": 8.0})
    assert places_on(offer, {"GPU": 1.0}, max_per_node=0, share=3) == 0
