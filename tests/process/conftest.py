"""Fixtures of the process tests beside those that all tests share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from backlog import Backlog
from designs import Designs

from fakes.ray_cluster import RayCluster


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("every_backend"):
        kinds = ["local", pytest.param("ray", marks=pytest.mark.needs_ray)]
        metafunc.parametrize("backend", kinds, indirect=True)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[RayCluster]:
    made = RayCluster(cpus=16)
    yield made
    made.close()


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """What makes commands of a test use the backend it runs on; tests marked `every_backend` run on each."""
    if getattr(request, "param", "local") == "local":
        return {}
    cluster: RayCluster = request.getfixturevalue("shared_cluster")
    return {
        **cluster.environment,
        "AGENTOS_CLUSTER__BACKEND": "ray",
        "AGENTOS_CLUSTER__ADDRESS": cluster.address,
    }


@pytest.fixture
def designs(tmp_path: Path) -> Iterator[Designs]:
    with closing(Designs(tmp_path)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_backlog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backlog]:
    """One for a module, where several tests look at the same run."""
    with closing(Backlog(tmp_path_factory.mktemp("backlog"))) as made:
        yield made
