"""Parallel workflow execution (LLD-1106): coordinator, credentials, output, identifiers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentos.text.identifiers import sanitize_identifier
    from agentos.text.output_prefixer import OutputPrefixer
    from agentos.workflows.parallel.coordinator import ParallelCoordinator
    from agentos.workflows.parallel.credential_coordinator import CredentialCoordinator

__all__ = ["CredentialCoordinator", "OutputPrefixer", "ParallelCoordinator", "sanitize_identifier"]

_HOMES = {
    "CredentialCoordinator": "credential_coordinator",
    "OutputPrefixer": "output_prefixer",
    "ParallelCoordinator": "coordinator",
    "sanitize_identifier": "input_sanitizer",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: workers and `--help` import from this package too, and need few of its modules.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
