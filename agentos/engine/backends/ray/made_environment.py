"""The Python environment that Ray makes on nodes if asked to: our packages from an index, and AgentOS itself."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from agentos.distribution import DISTRIBUTION
from agentos.engine.backends.ray.environment_check import installed_packages
from agentos.engine.backends.ray.own_wheel import write_own_wheel

_THE_NODES_OWN = frozenset(("pip", "ray", "setuptools", "virtualenv", "wheel"))
"""What a node makes environments with."""
_FOLDER_THERE = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"


def _made_packages() -> dict[str, str]:
    """Names and versions. What was installed from a folder or a repository, no index may have."""
    return {
        name: version
        for name, version in installed_packages().items()
        if name not in _THE_NODES_OWN and name != DISTRIBUTION and not _has_another_source(name)
    }


def runtime_env(folder: Path) -> dict[str, Any]:
    """For `ray.init`, which copies the folder to nodes."""
    wheel = write_own_wheel(folder)
    packages = [f"{name}=={version}" for name, version in sorted(_made_packages().items())]
    return {
        "working_dir": str(folder),
        "pip": {"packages": [*packages, f"{_FOLDER_THERE}/{wheel.name}"]},
        "config": {"eager_install": False},  # Nodes that are never used make none.
    }


def could_not_make(error: Exception) -> str:
    """In words. What it comes to is the last thing that the program has printed."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"Ray could not make its Python environment: {lines[-1] if lines else type(error).__name__}"


def compared_packages(*, makes_environment: bool) -> list[str] | None:
    """Those that nodes need as we have them; None: all."""
    return sorted(_made_packages()) if makes_environment else None


def _has_another_source(name: str) -> bool:
    return metadata.distribution(name).read_text("direct_url.json") is not None
