"""The real schedule and key pool on a made-up cluster: nodes die, limits change, nothing is lost or done twice."""

from __future__ import annotations

import pytest

from fakes.cluster import ClusterRun, World


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_item_is_done_once_although_nodes_die_and_limits_change(seed: int) -> None:
    faults = {"node_lives_seconds": 200, "node_away_seconds": 10, "quota_changes": 4}
    world = World(items=1500, nodes=20, keys=20, groups=5, rpm=240, seed=seed, **faults)
    outcome = ClusterRun(world).run()

    assert len(outcome.done) == world.items
    assert outcome.deaths > 20
    assert outcome.accepted - outcome.repeated == world.items * world.calls, "a kept call is never made again"
    assert outcome.refused_share < 0.1
    assert outcome.over_bound < 1.5


def test_a_decision_takes_as_many_steps_for_many_items_as_for_few() -> None:
    few, many = (
        ClusterRun(World(items=items, nodes=20, keys=20, groups=5, rpm=6000, quota_changes=0)).run()
        for items in (300, 3000)
    )
    assert many.schedule.count / few.schedule.count == pytest.approx(10, rel=0.1)
    assert many.pool.count / few.pool.count == pytest.approx(10, rel=0.25)
