"""What a run wants of a cluster, and whether it can be had here. Imports no Ray."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from agentos.distribution import install_line
from agentos.engine.backends.ray.backend import ClusterPlan
from agentos.errors import UsageError


def cluster_plan(
    address: str, *, parallel: int, max_per_node: int, resources: Iterable[str], makes_environment: bool
) -> ClusterPlan:
    """Raises UsageError when there is no address, or no Ray here."""
    require_ray()
    if not address:
        raise UsageError("--backend ray needs the cluster's head: --address HOST:PORT, or address under [cluster].")
    return ClusterPlan(
        address=address,
        parallel=parallel,
        max_per_node=max_per_node,
        resources=resources_of(resources),
        makes_environment=makes_environment,
    )


def require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"A cluster needs Ray, which is not installed: {install_line('cluster')}")


def resources_of(entries: Iterable[str]) -> dict[str, float]:
    """Of entries like `CPU=2`; a processor for each item unless another number of them is said."""
    given = dict(entry.split("=", 1) for entry in entries)
    return {"CPU": 1.0, **{name: float(amount) for name, amount in given.items()}}
