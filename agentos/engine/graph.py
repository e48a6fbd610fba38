"""One item's way through its graph: with the item's own checkpoint, node by node, to the end or to a question.

The graph runs as its author compiled it. Only the checkpointer is ours, and a store where it has none.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._loop import PregelLoop
from langgraph.pregel.protocol import StreamProtocol
from langgraph.runtime import Runtime
from langgraph.types import Command

from agentos.engine import checkpoints
from agentos.engine.checkpoints.lost_nodes import SENDS, TRIGGERS, GraphChanged, waiting_nodes
from agentos.engine.checkpoints.protocol import ItemCheckpoint, Standing
from agentos.engine.graph_loading import AnyGraph, FactoryCall, LoadedGraph
from agentos.engine.model_usage import ModelUsage
from agentos.engine.subgraph_nodes import NestedNodes, NestedTask, SubgraphSteps, containers
from agentos.errors import UsageError

ROOT = "__root__"
"""LangGraph's only key for a state that is no object."""
INTERRUPT = "__interrupt__"
"""LangGraph's key for questions among the values of a state."""
RESUME = "__resume__"
"""LangGraph's channel for answers."""
_STREAM, _RUNTIME = "__pregel_stream", "__pregel_runtime"
"""Where LangGraph looks for the stream and the runtime of whoever runs it. Asking it to stream custom events itself
would run every node in a thread, where no signal reaches it."""


class _NothingToSave:
    def result(self) -> None: ...

    def __await__(self) -> Iterator[Any]:
        return iter(())


# After each step LangGraph waits for what it has saved, also of a graph with `checkpointer=False`, which has nothing.
if not hasattr(PregelLoop, "_put_checkpoint_fut"):
    setattr(PregelLoop, "_put_checkpoint_fut", _NothingToSave())  # noqa: B010  No such name is declared.


def input_keys(graph: AnyGraph) -> list[str] | None:
    """The state keys an input may have; None when it takes anything. LangGraph drops others in silence."""
    if not isinstance(graph, CompiledStateGraph):
        return None
    builder = graph.builder
    schema = builder.input_schema
    config = getattr(schema, "model_config", None)
    if config and config.get("extra") == "allow":
        return None
    keys = [key for key in builder.schemas.get(schema, {}) if not key.startswith("branch:")]
    return None if keys == [ROOT] else keys


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a graph is run, beside its input."""

    config: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    is_async: bool = False
    """Await it even though nothing in it seems to need that."""
    store: Any = None
    """For a graph that has none of its own."""
    on_custom: Callable[[str, Any], None] = lambda _node, _data: None
    """Told what a node writes to its stream."""
    on_notice: Callable[[str], None] = lambda _text: None
    """Told, in words, what the user of the graph should know."""
    on_token: Callable[[str], None] | None = None
    """Told each piece of text that a model streams, if anybody wants to know."""


_FORGOTTEN = (
    "What nodes had put into the graph's InMemoryStore is gone: it ended with their process. "
    "Compile the graph without a store, and what they put is kept."
)


_ASKS_FROM_THE_FIRST = (
    "After an edit a node starts from its beginning and asks its first question again. The new answer was to a later "
    "question and is not used."
)


def _has_used_answers(graph: AnyGraph, checkpoint: ItemCheckpoint) -> bool:
    """Whether what waits has had answers before: an edit takes them away, and the next goes to the first question."""
    inside = tuple(f"{task.name}:{task.id}" for task in graph.get_state(checkpoint.config).tasks)
    thread: RunnableConfig = {"configurable": {"thread_id": checkpoint.config["configurable"]["thread_id"]}}
    saved = [checkpoint.saver.get_tuple(checkpoint.config)]
    saved += [
        s for s in checkpoint.saver.list(thread) if s.config["configurable"]["checkpoint_ns"].startswith(inside)
    ]
    return any(channel == RESUME for each in saved if each for _task, channel, _value in each.pending_writes or ())


def _is_in_memory(store: Any) -> bool:
    """LangGraph's own, or one that is made of it."""
    return any(kind.__module__ == "langgraph.store.memory" for kind in type(store).__mro__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """What a person has said to an item that waits."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    """By the id of the interrupt."""
    edit: Mapping[str, Any] | None = None
    """Changes to its state."""

    @classmethod
    def of(cls, standing: Standing) -> Continuation | None:
        """None when nobody has said anything yet."""
        if standing.answer is None and standing.edit is None:
            return None
        ids, answer = standing.interrupt_ids, standing.answer
        if answer is None or ids == []:
            answers = {}
        elif ids is None or len(ids) == 1:
            answers = {ids[0] if ids else "": answer}
        else:
            answers = dict(answer)
        return cls(answers=answers, edit=standing.edit)

    def command(self) -> Command[Any] | None:
        if not self.answers:
            return None
        if len(self.answers) == 1 and ("" in self.answers or self.edit is not None):
            # An edited state asks anew, under another id.
            return Command(resume=next(iter(self.answers.values())))
        return Command(resume=dict(self.answers))


@dataclass(slots=True)
class Execution:
    """One item's way through its graph. `run` it once; each node is announced before it runs."""

    graph: LoadedGraph | AnyGraph
    checkpoint: ItemCheckpoint
    options: RunOptions = field(default_factory=RunOptions)
    finished: list[tuple[str, float]] = field(default_factory=list)
    """Nodes whose results are on disk and that nobody has collected yet: name and seconds."""
    final_state: Any = None
    output: Any = None
    """What `invoke` would return."""
    is_parked: bool = False
    questions: list[Any] = field(default_factory=list)
    """What a parked item asks a person."""
    interrupt_ids: list[str] = field(default_factory=list)
    """Of each question; none when the graph stops by itself before or after a node."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    _in_flight: dict[str, tuple[str, float]] = field(default_factory=dict)
    _unsaved: list[tuple[str, float, tuple[str, int] | None]] = field(default_factory=list)
    """Nodes that ended: name, seconds and, inside a subgraph, the step they are saved with."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Nodes of a subgraph may start side by side, each in its thread."""

    def run(self, initial_state: Any, announce: Callable[[str], None], person: Continuation | None = None) -> None:
        """To the end or to an interrupt. `None` resumes from the last checkpoint, with a person's words if any."""
        steps = _Steps(initial_state, announce, person or Continuation())
        loaded, call = self._loaded(), self._factory_call()
        self.usage.on_token = self.options.on_token
        if loaded.is_awaited:
            asyncio.run(self._open_and_run(loaded, call, steps))
            return
        with loaded.opened(call) as graph:
            compiled = self._prepared(graph, steps)
            begin, config, streaming = self._beginning(compiled, steps)
            if self.options.is_async or must_be_awaited(compiled):
                asyncio.run(self._run_async(compiled.astream(begin, config, **streaming), steps))
            else:
                for mode, payload in compiled.stream(begin, config, **streaming):
                    self._take(mode, payload, steps)
            self._settle()
            self._conclude(compiled)

    def look(self) -> None:
        """Where the item stands, without running anything."""
        loaded, call = self._loaded(), self._factory_call()

        async def look_async() -> None:
            async with loaded.opened_async(call) as graph:
                self._conclude(self._prepared(graph, None))

        if loaded.is_awaited:
            asyncio.run(look_async())
            return
        with loaded.opened(call) as graph:
            self._conclude(self._prepared(graph, None))

    def _loaded(self) -> LoadedGraph:
        return self.graph if isinstance(self.graph, LoadedGraph) else LoadedGraph("", self.graph)

    def _factory_call(self) -> FactoryCall:
        config = {**self.options.config, "configurable": {**self.options.config.get("configurable", {})}}
        config["configurable"] |= self.checkpoint.config["configurable"]
        return FactoryCall(config, self.options.context, self.options.store)

    async def _open_and_run(self, loaded: LoadedGraph, call: FactoryCall, steps: _Steps) -> None:
        async with loaded.opened_async(call) as graph:
            compiled = self._prepared(graph, steps)
            begin, config, streaming = self._beginning(compiled, steps)
            await self._run_async(compiled.astream(begin, config, **streaming), steps)
            self._settle()
            self._conclude(compiled)

    async def _run_async(self, stream: Any, steps: _Steps) -> None:
        async for mode, payload in stream:
            self._take(mode, payload, steps)

    def _prepared(self, graph: AnyGraph, steps: _Steps | None) -> AnyGraph:
        """This item's own copy. Raises GraphChanged when it could not resume in it."""
        store = graph.store if graph.store is not None else self.options.store
        compiled = graph.copy({"checkpointer": self.checkpoint.saver, "store": store})
        if steps is None:
            return compiled
        if steps.initial_state is None:
            _refuse_lost_nodes(compiled, self.checkpoint)
            if _is_in_memory(store):
                self.options.on_notice(_FORGOTTEN)
        elif isinstance(self.graph, LoadedGraph) and self.graph.factory is not None:
            _refuse_unknown_keys(steps.initial_state, input_keys(compiled))
        if steps.person.answers:
            self.checkpoint.forget_used_answers()
        if (edit := steps.person.edit) is not None:
            _refuse_unknown_keys(edit, _state_keys(compiled))
            starts_again = _has_used_answers(compiled, self.checkpoint)
            if starts_again and steps.person.answers:
                steps.person = replace(steps.person, answers={})
                self.options.on_notice(_ASKS_FROM_THE_FIRST)
            with self.checkpoint.editing(question_stands=not starts_again):
                compiled.update_state(self.checkpoint.config, dict(edit))
        steps.containers = containers(compiled)
        return compiled

    def _beginning(self, compiled: AnyGraph, steps: _Steps) -> tuple[Any, Any, dict[str, Any]]:
        """What to run it with: its input, its configuration, and how it tells of its steps."""
        begin = steps.initial_state if steps.initial_state is not None else steps.person.command()
        given = self.options.config
        handlers: list[Any] = [*(given.get("callbacks") or ()), self.usage]
        if steps.containers:
            handlers.append(
                NestedNodes(
                    steps.containers, lambda task: self._nested_started(task, steps.announce), self._nested_ended
                )
            )
        if begin is None or isinstance(begin, Command):
            handlers.append(SubgraphSteps(self.checkpoint.subgraph_goes_on))
        runtime: Any = Runtime(stream_writer=self._write_custom, store=compiled.store)
        configurable = {
            **given.get("configurable", {}),
            **self.checkpoint.config["configurable"],
            _STREAM: StreamProtocol(lambda _chunk: None, set()),
            _RUNTIME: runtime,
        }
        streaming = {
            "stream_mode": ["tasks", "values"],
            "output_keys": compiled.output_channels,
            "durability": "sync",
            "context": _context_for(compiled, self.options.context),
        }
        return begin, {**given, "configurable": configurable, "callbacks": handlers}, streaming

    def _write_custom(self, data: Any) -> None:
        self.options.on_custom(_current_node(), data)

    def _conclude(self, compiled: AnyGraph) -> None:
        snapshot = compiled.get_state(self.checkpoint.config)
        self.final_state = snapshot.values
        self.is_parked = bool(snapshot.next)
        self.questions = [waiting.value for waiting in snapshot.interrupts]
        self.interrupt_ids = [waiting.id for waiting in snapshot.interrupts]
        if self.is_parked and not self.questions:
            self.questions = [{"stopped": "before", "next": list(snapshot.next)}]
        if self.output is None:
            self.output = _only(compiled.output_channels, snapshot.values)

    def _take(self, mode: str, payload: Any, steps: _Steps) -> None:
        if mode == "values":
            self.output = _without_interrupts(payload)
        elif payload["name"] in steps.containers:
            return
        elif "input" in payload:
            self._settle()
            self.checkpoint.name_task(payload["id"], payload["name"])
            steps.announce(payload["name"])
            self._in_flight[payload["id"]] = (payload["name"], time.monotonic())
        elif payload["id"] in self._in_flight:
            if not payload.get("error") and not payload.get("interrupts"):
                # Before the next node starts: what this one came to may not be what it would have come to.
                self.checkpoint.refuse_lost_subgraphs(payload["id"])
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


@dataclass(slots=True)
class _Steps:
    """One run of an execution."""

    initial_state: Any
    announce: Callable[[str], None]
    person: Continuation
    containers: frozenset[str] = frozenset()


def _without_interrupts(payload: Any) -> Any:
    """What is asked is told apart from the state."""
    if isinstance(payload, dict) and INTERRUPT in payload:
        return {name: value for name, value in payload.items() if name != INTERRUPT}
    return payload


def _only(channels: str | Sequence[str], values: Any) -> Any:
    """Of a state, what the graph gives as its output."""
    if isinstance(channels, str) or not isinstance(values, dict):
        return values
    return {name: values[name] for name in channels if name in values}


def _current_node() -> str:
    from langgraph.config import get_config  # noqa: PLC0415  Only graphs that write to their stream come here.

    try:
        return str(get_config().get("metadata", {}).get("langgraph_node", ""))
    except RuntimeError:
        return ""  # A thread that the node has started.


def _context_for(graph: AnyGraph, given: Any) -> Any:
    """What was given, else the schema's own defaults if it has one for every field."""
    schema = graph.context_schema
    if given is not None or schema is None:
        return given
    try:
        schema()
    except Exception:
        return None  # It has to be given; a node that wants it says so best.
    return {}


def _refuse_unknown_keys(given: Any, known: list[str] | None) -> None:
    unknown = sorted(set(given) - set(known)) if known is not None and isinstance(given, dict) else []
    if unknown:
        raise UsageError(
            f"the graph's state has no key {unknown[0]!r}; LangGraph would drop it in silence. "
            f"Known keys: {', '.join(sorted(known or ()))}."
        )


def _state_keys(graph: AnyGraph) -> list[str] | None:
    """What an edit may name; None when the state is no set of keys."""
    if not isinstance(graph, CompiledStateGraph) or ROOT in graph.channels:
        return None
    return [name for name in graph.channels if not name.startswith((*TRIGGERS, "__"))]


def must_be_awaited(graph: AnyGraph) -> bool:
    """Whether anything in it can only be awaited: a node, a choice between nodes, a tool, a part of a subgraph."""
    paths = []
    if isinstance(graph, CompiledStateGraph):
        paths = [branch.path for branches in graph.builder.branches.values() for branch in branches.values()]
    return any(map(_is_async_only, [*(node.bound for node in graph.nodes.values()), *paths]))


def _is_async_only(runnable: Any) -> bool:
    if isinstance(runnable, Pregel):
        return must_be_awaited(runnable)
    for function, coroutine in (("func", "afunc"), ("func", "coroutine")):
        if getattr(runnable, coroutine, None) is not None and getattr(runnable, function, None) is None:
            return True
    # LangChain's ways to put runnables together: one after the other, side by side, one with settings, tools.
    parts = [*getattr(runnable, "steps", ()), *getattr(runnable, "steps__", {}).values()]
    parts += getattr(runnable, "tools_by_name", {}).values()
    return any(map(_is_async_only, [*parts, *([runnable.bound] if hasattr(runnable, "bound") else [])]))


def _refuse_lost_nodes(compiled: AnyGraph, checkpoint: ItemCheckpoint) -> None:
    """What waits in a checkpoint for a node that is gone LangGraph drops in silence: the item would look done."""
    for where, graph, saved in _saved_graphs(compiled, checkpoint):
        for node, channel in waiting_nodes(saved.checkpoint["channel_values"]):
            if channel not in graph.channels or (channel == SENDS and node not in graph.nodes):
                raise GraphChanged.without(where + node)


def _saved_graphs(compiled: AnyGraph, checkpoint: ItemCheckpoint) -> Iterator[tuple[str, AnyGraph, Any]]:
    """The graph with what is saved of it, then every subgraph of a task that is to go on, by its way from the top."""
    saver = checkpoint.saver
    top = saver.get_tuple(checkpoint.config)
    if top is None:
        return
    yield "", compiled, top
    under_way = {f"{task.name}:{task.id}" for task in compiled.get_state(checkpoint.config).tasks}
    subgraphs = dict(compiled.get_subgraphs(recurse=True))
    seen = {""}
    # Newest first, of all namespaces: the item's configuration names none.
    for saved in saver.list(checkpoint.config):
        namespace = saved.config["configurable"]["checkpoint_ns"]
        if namespace in seen or namespace.partition("|")[0] not in under_way:
            continue
        seen.add(namespace)
        way = [part.partition(":")[0] for part in namespace.split("|") if not part.isdigit()]
        subgraph = subgraphs.get("|".join(way))
        if isinstance(subgraph, Pregel):
            yield ".".join(way) + ".", subgraph, saved


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
