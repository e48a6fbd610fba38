"""What a program adds to the engine's workers: named where the run is put together, loaded by name in each worker.

Model calls come in this way: the engine itself knows no model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, cast

from agentos.keys.leases import LeaseBroker


class WorkerExtension(Protocol):
    """Made for one item, in its worker."""

    def __init__(self, *, workflow: str, item_id: str) -> None: ...

    @staticmethod
    def preload(options: Mapping[str, Any], loaded: Collection[str]) -> None:
        """Once, in a process that workers are forked from: load what they would otherwise each load.

        `options` is what the run was put together with, `loaded` the modules that loading the graph has loaded.
        """
        ...

    @staticmethod
    def notice(options: Mapping[str, Any], loaded: Collection[str]) -> str:
        """What users should know of a graph that has loaded these modules; empty when there is nothing."""
        ...

    def begin(self, leases: LeaseBroker, mask: Callable[[str], str], notes: str) -> None:
        """Before the first node. `mask` hides keys in text; `notes` is what an earlier attempt noted, or empty."""
        ...

    def node_starts(self, node: str) -> None: ...

    def notes(self) -> str:
        """What to keep with the item's checkpoint; asked between nodes, kept over a resume."""
        ...

    def stop(self) -> None:
        """The item is to end: give up whatever it waits for, in any thread."""
        ...


class NoExtension:
    """A worker as it is."""

    def __init__(self, *, workflow: str, item_id: str) -> None: ...

    @staticmethod
    def preload(options: Mapping[str, Any], loaded: Collection[str]) -> None: ...

    @staticmethod
    def notice(options: Mapping[str, Any], loaded: Collection[str]) -> str:
        return ""

    def begin(self, leases: LeaseBroker, mask: Callable[[str], str], notes: str) -> None: ...

    def node_starts(self, node: str) -> None: ...

    def notes(self) -> str:
        return ""

    def stop(self) -> None: ...


def extension_named(name: str) -> type[WorkerExtension]:
    """`MODULE:CLASS`; an empty name is no extension."""
    if not name:
        return NoExtension
    module, _, attribute = name.partition(":")
    return cast(type[WorkerExtension], getattr(importlib.import_module(module), attribute))
