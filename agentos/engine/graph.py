"""A workflow's graph: find it, give it an item's own checkpoint, run it node by node.

The only module of the engine that runs LangGraph: the fork server loads it once, workers inherit it.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from agentos.engine import checkpoints
from agentos.engine.checkpoints.protocol import ItemCheckpoint
from agentos.engine.subgraph_nodes import NestedNodes, NestedTask, containers
from agentos.errors import AgentosError, UsageError

_TRIGGERS = ("branch:to:", "join:")
"""How the channels begin that LangGraph starts nodes by."""
_SENDS = "__pregel_tasks"
"""The channel of nodes that are started by `Send`."""

AnyGraph = StateGraph[Any, Any, Any, Any]
CompiledGraph = CompiledStateGraph[Any, Any, Any, Any]


class GraphChanged(AgentosError):
    """The item's checkpoint continues with a node that the graph does not have."""


def load_graph(spec: str, search_dir: Path) -> CompiledGraph:
    """`MODULE:ATTR` or `PATH.py:ATTR` to a compiled graph, still without a checkpointer. Raises UsageError."""
    target, colon, attribute = spec.rpartition(":")
    if not colon or not target or not attribute:
        raise UsageError(f"--graph {spec!r}: expected MODULE:ATTR or PATH.py:ATTR, like flows/review.py:graph.")
    module = _import_target(target, search_dir)
    if not hasattr(module, attribute):
        graphs = [n for n, v in vars(module).items() if isinstance(v, StateGraph | CompiledStateGraph)]
        hint = f" Did you mean {target}:{graphs[0]}?" if graphs else ""
        raise UsageError(f"--graph {spec!r}: {target} has no attribute {attribute!r}.{hint}")
    graph = _as_graph(getattr(module, attribute), spec)
    try:
        return graph.compile()
    except Exception as error:
        raise UsageError(f"--graph {spec!r} does not compile: {error}") from error


def _import_target(target: str, search_dir: Path) -> Any:
    if not target.endswith(".py"):
        sys.path.insert(0, str(search_dir))
        try:
            return importlib.import_module(target)
        except ModuleNotFoundError as error:
            if error.name and (target == error.name or target.startswith(f"{error.name}.")):
                raise UsageError(
                    f"--graph: no module {target!r} on the path or in {search_dir}. For a file, write PATH.py:ATTR."
                ) from None
            raise
    path = search_dir / target
    if not path.is_file():
        raise UsageError(f"--graph: no file {target!r} in {search_dir}.")
    # The file's folder is importable, as it is for `python PATH.py`.
    sys.path.insert(0, str(path.parent.resolve()))
    # A file called like a module that is loaded already, `select.py` or `json.py`, must not take its place.
    name = f"graph_{path.stem}" if path.stem in sys.modules else path.stem
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"--graph: {target!r} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(specification)
    # Registered before it runs: pickles, dataclasses and type hints look modules up by name.
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _as_graph(value: Any, spec: str) -> AnyGraph:
    if callable(value) and not isinstance(value, StateGraph | CompiledStateGraph):
        try:
            value = value()
        except TypeError as error:
            raise UsageError(f"--graph {spec!r}: the function must take no arguments ({error}).") from error
    if isinstance(value, CompiledStateGraph):
        if value.interrupt_before_nodes or value.interrupt_after_nodes:
            raise UsageError(
                f"--graph {spec!r} is compiled with interrupt_before or interrupt_after, which would be lost. "
                "Call interrupt() in a node instead: its item then waits for `agentos review`."
            )
        value = value.builder
    if not isinstance(value, StateGraph):
        raise UsageError(f"--graph {spec!r} is {type(value).__name__}, not a LangGraph StateGraph.")
    return value


def input_keys(compiled: CompiledGraph) -> list[str] | None:
    """The state keys an input may have; None when the state takes any. LangGraph drops others in silence."""
    graph = compiled.builder
    schema = graph.input_schema
    config = getattr(schema, "model_config", None)
    if config and config.get("extra") == "allow":
        return None
    keys = [key for key in graph.schemas.get(schema, {}) if not key.startswith("branch:")]
    return None if keys == ["__root__"] else keys


@dataclass(slots=True)
class Execution:
    """One item's way through its graph. `run` it once; each node is announced before it runs."""

    graph: CompiledGraph
    """Compiled once for all items; this process's own, and this item's from here on."""
    checkpoint: ItemCheckpoint
    finished: list[tuple[str, float]] = field(default_factory=list)
    """Nodes whose results are on disk and that nobody has collected yet: name and seconds."""
    final_state: Any = None
    is_parked: bool = False
    questions: list[Any] = field(default_factory=list)
    """What a parked item asks a person."""
    _in_flight: dict[str, tuple[str, float]] = field(default_factory=dict)
    _unsaved: list[tuple[str, float, tuple[str, int] | None]] = field(default_factory=list)
    """Nodes that ended: name, seconds and, inside a subgraph, the step they are saved with."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Nodes of a subgraph may start side by side, each in its thread."""

    def run(self, initial_state: dict[str, Any] | None, announce: Callable[[str], None], answer: Any = None) -> None:
        """Run to the end or to an interrupt. `None` resumes from the last checkpoint, with an answer if given."""
        begin: Any = initial_state if answer is None else Command(resume=answer)
        compiled = self.graph
        compiled.checkpointer = saver = self.checkpoint.saver
        config = self.checkpoint.config
        if initial_state is None:
            _refuse_lost_nodes(compiled, saver.get_tuple(config))
        subgraphs = containers(compiled.builder)
        if subgraphs:
            nested = NestedNodes(subgraphs, lambda task: self._nested_started(task, announce), self._nested_ended)
            config = {**config, "callbacks": [nested]}
        options: Any = {"stream_mode": "tasks", "durability": "sync"}
        if _has_async_nodes(compiled.builder):
            asyncio.run(self._run_async(compiled.astream(begin, config, **options), announce, subgraphs))
        else:
            for payload in compiled.stream(begin, config, **options):
                self._take(payload, announce, subgraphs)
        self._settle()
        snapshot = compiled.get_state(config)
        self.final_state = snapshot.values
        self.is_parked = bool(snapshot.next)
        self.questions = [waiting.value for waiting in snapshot.interrupts]

    async def _run_async(self, stream: Any, announce: Callable[[str], None], subgraphs: frozenset[str]) -> None:
        async for payload in stream:
            self._take(payload, announce, subgraphs)

    def _take(self, payload: Any, announce: Callable[[str], None], subgraphs: frozenset[str]) -> None:
        if payload["name"] in subgraphs:
            return
        if "input" in payload:
            self._settle()
            self.checkpoint.name_task(payload["id"], payload["name"])
            announce(payload["name"])
            self._in_flight[payload["id"]] = (payload["name"], time.monotonic())
        elif payload["id"] in self._in_flight:
            name, started = self._in_flight.pop(payload["id"])
            if not payload.get("error") and not payload.get("interrupts"):
                self._unsaved.append((name, round(time.monotonic() - started, 6), None))

    def _nested_started(self, task: NestedTask, announce: Callable[[str], None]) -> None:
        with self._lock:
            self._settle(under_way=task.step)
            self.checkpoint.name_task(task.task_id, task.name)
            announce(task.name)
            self._in_flight[task.task_id] = (task.name, time.monotonic())

    def _nested_ended(self, task: NestedTask) -> None:
        with self._lock:
            name, started = self._in_flight.pop(task.task_id)
            self._unsaved.append((name, round(time.monotonic() - started, 6), task.step))

    def _settle(self, under_way: tuple[str, int] | None = None) -> None:
        """A step starts only after the one before it is on disk; one that is under way is not."""
        kept = [entry for entry in self._unsaved if under_way is not None and entry[2] == under_way]
        self.finished += [entry[:2] for entry in self._unsaved if entry not in kept]
        self._unsaved = kept

    def collect_finished(self) -> list[tuple[str, float]]:
        collected, self.finished = self.finished, []
        return collected


def _has_async_nodes(graph: AnyGraph) -> bool:
    """Whether anything in it can only be awaited: a node, a choice between nodes, a part of a subgraph."""
    paths = [branch.path for branches in graph.branches.values() for branch in branches.values()]
    return any(map(_is_async_only, [*(node.runnable for node in graph.nodes.values()), *paths]))


def _is_async_only(runnable: Any) -> bool:
    if isinstance(runnable, CompiledStateGraph):
        return _has_async_nodes(runnable.builder)
    if getattr(runnable, "afunc", None) is not None and getattr(runnable, "func", None) is None:
        return True
    # LangChain's ways to put runnables together: one after the other, side by side, one with settings.
    parts = [*getattr(runnable, "steps", ()), *getattr(runnable, "steps__", {}).values()]
    return any(map(_is_async_only, [*parts, *([runnable.bound] if hasattr(runnable, "bound") else [])]))


def _refuse_lost_nodes(compiled: Any, saved: Any) -> None:
    """What waits in a checkpoint for a node that is gone LangGraph drops in silence: the item would look done."""
    waiting = saved.checkpoint["channel_values"] if saved else {}
    lost = [c.rpartition(":")[2] for c in waiting if c.startswith(_TRIGGERS) and c not in compiled.channels]
    lost += [send.node for send in waiting.get(_SENDS) or () if send.node not in compiled.nodes]
    if lost:
        raise GraphChanged(
            "the graph has changed since this item's checkpoint was made: the way to node "
            f"{lost[0]!r}, where the item would resume, is gone. Run with --fresh to start over, or restore it."
        )


def state_value(state: Any, key: str) -> Any:
    """A key of a final state, whatever kind of state it is."""
    return state.get(key) if isinstance(state, dict) else getattr(state, key, None)


class _NoState(TypedDict, total=False):
    nothing: str


def warm_up() -> None:
    """Run an empty graph once: what LangGraph loads on first use is there for every worker after the fork."""
    graph = StateGraph(_NoState)
    graph.add_node("nothing", lambda _state: {})
    graph.set_entry_point("nothing")
    with closing(checkpoints.scratch()) as checkpoint:
        Execution(graph.compile(), checkpoint).run({}, lambda _node: None)
