"""Nodes that a checkpoint continues with and that its graph does not have any more.

LangGraph drops what waits for them in silence: the item would look done. A graph that a node calls by itself is known
to nobody before it runs: of those, one that was to go on, and has ended without a step, is noticed as its node ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from agentos.errors import CannotContinueError

TRIGGERS = ("branch:to:", "join:")
"""How the channels begin that LangGraph starts nodes by."""
SENDS = "__pregel_tasks"
"""The channel of nodes that are started by `Send`."""
_RESUMING, _PARENTS = "__pregel_resuming", "checkpoint_map"
"""Where LangGraph tells a graph inside of another that it resumes, and from which checkpoints of those above."""


class GraphChanged(CannotContinueError):
    """The item's checkpoint continues with a node that the graph does not have."""

    @classmethod
    def without(cls, node: str) -> GraphChanged:
        return cls(
            f"the graph has changed since this item's checkpoint was made: the way to node {node!r}, where the item "
            "would resume, is gone. Run with --fresh to start over, or restore it."
        )


def waiting_nodes(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each node that saved values wait for, with the channel that starts it."""
    found = [(channel.rpartition(":")[2], channel) for channel in values if channel.startswith(TRIGGERS)]
    return found + [(send.node, SENDS) for send in values.get(SENDS) or ()]


class ResumedSubgraphs:
    """Subgraphs of one item that were to go on when this process read their checkpoints, until they do."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        self._seen: set[str] = set()
        # Nodes run in threads, and so do the commits of what they have done.
        self._lock = threading.Lock()

    def read(self, config: Any, saved: Any) -> None:
        given = config["configurable"]
        namespace = given.get("checkpoint_ns", "")
        if namespace and saved is not None and saved.metadata.get("parents") != given.get(_PARENTS):
            # Of a call in an earlier step, kept by a graph with `checkpointer=True`: this one begins with its input.
            given.pop(_RESUMING, None)
        with self._lock:
            if not namespace or namespace in self._seen:
                return
            self._seen.add(namespace)
            waiting = waiting_nodes(saved.checkpoint["channel_values"]) if saved is not None else []
            if waiting:
                self._waiting[namespace] = waiting[0][0]

    def moved(self, config: Any) -> None:
        """Something of it is being saved."""
        self.goes_on(config["configurable"].get("checkpoint_ns", ""))

    def goes_on(self, namespace: str) -> None:
        """A node of it starts. One that leaves for a graph above saves nothing of its own."""
        with self._lock:
            self._seen.add(namespace)
            self._waiting.pop(namespace, None)

    def step_ends(self, config: Any) -> None:
        """Raises GraphChanged when a graph that a node of the step has called has not gone on."""
        parent = config["configurable"].get("checkpoint_ns", "")
        self._refuse(lambda way: "|".join(way[:-1]) == parent)

    def node_ends(self, task_id: str, writes: Any = ()) -> None:
        """The same for one node, unless it failed or asks."""
        if not {channel for channel, _ in writes} & {ERROR, INTERRUPT}:
            self._refuse(lambda way: way[-1].endswith(f":{task_id}"))

    def _refuse(self, has_ended: Callable[[list[str]], bool]) -> None:
        with self._lock:
            for namespace, node in self._waiting.items():
                way = namespace.split("|")
                while way[-1].isdigit():  # The node has called more than one.
                    way.pop()
                if has_ended(way):
                    names = [part.partition(":")[0] for part in way if not part.isdigit()]
                    raise GraphChanged.without(".".join([*names, node]))
