"""From a spec to a graph: imports the module as its author would, and asks a factory where there is one."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentos.engine.graph_spec import GraphSpec, module_name, resolve_graph
from agentos.engine.interpreter import python_beside
from agentos.engine.store_index import StoreIndex, UsableIndex, usable
from agentos.errors import UsageError

AnyGraph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class FactoryCall:
    """What a factory may ask for."""

    config: Mapping[str, Any]
    context: Any = None
    store: Any = None

    def runtime(self) -> Any:
        """As LangGraph's server hands it over when it is about to run the graph."""
        from langgraph_sdk.runtime import _ExecutionRuntime  # noqa: PLC0415  Only factories that ask need it.

        return _ExecutionRuntime(access_context="threads.create_run", store=self.store, context=self.context)


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """What a spec names: one graph for all items, or a factory that makes one for each."""

    spec: str
    graph: AnyGraph | None = None
    factory: Callable[..., Any] | None = None
    store_index: UsableIndex | None = None
    """For the store that the graph is given."""

    @property
    def is_awaited(self) -> bool:
        """Whether its factory can only be asked from within an event loop."""
        return self.factory is not None and (
            inspect.iscoroutinefunction(self.factory)
            or inspect.isasyncgenfunction(inspect.unwrap(self.factory))
            or hasattr(self.factory, "__aenter__")
        )

    @contextmanager
    def opened(self, call: FactoryCall) -> Iterator[AnyGraph]:
        """The graph for one item, with whatever its factory keeps open for it."""
        if self.factory is None:
            assert self.graph is not None
            yield self.graph
            return
        with ExitStack() as stack:
            made = self._call(call)
            if not isinstance(made, Pregel | StateGraph) and hasattr(made, "__enter__"):
                made = stack.enter_context(made)
            yield as_graph(made, self.spec)

    @asynccontextmanager
    async def opened_async(self, call: FactoryCall) -> AsyncIterator[AnyGraph]:
        """The same from within an event loop, which what it keeps open may belong to."""
        if self.factory is None:
            assert self.graph is not None
            yield self.graph
            return
        async with AsyncExitStack() as stack:
            made = self._call(call)
            if inspect.isasyncgen(made):
                made = asynccontextmanager(lambda: made)()
            if inspect.isawaitable(made):
                made = await made
            if hasattr(made, "__aenter__"):
                made = await stack.enter_async_context(made)
            elif not isinstance(made, Pregel | StateGraph) and hasattr(made, "__enter__"):
                made = stack.enter_context(made)
            yield as_graph(made, self.spec)

    def _call(self, call: FactoryCall) -> Any:
        assert self.factory is not None
        wanted = wanted_arguments(self.factory, self.spec)
        return self.factory(**{name: call.runtime() if kind == "runtime" else call.config for name, kind in wanted})


def load_graph(text: str, search_dir: Path) -> LoadedGraph:
    """Raises UsageError when there is no graph; what the graph's own code raises comes through."""
    spec = resolve_graph(text, search_dir)
    loaded = _load(spec, search_dir)
    index = spec.project.store_index if spec.project else None
    return replace(loaded, store_index=_load_index(index, search_dir)) if index else loaded


def _load_index(index: StoreIndex, search_dir: Path) -> UsableIndex:
    if not index.is_function:
        return usable(index, index.embed)
    spec = resolve_graph(index.embed, index.file.parent)
    module = _import(spec, search_dir)
    if not hasattr(module, spec.attribute):
        raise UsageError(f"{index.file}: store.index.embed: {spec.file} has no attribute {spec.attribute!r}.")
    return usable(index, getattr(module, spec.attribute))


def _load(spec: GraphSpec, search_dir: Path) -> LoadedGraph:
    text = spec.text
    module = _import(spec, search_dir)
    if not hasattr(module, spec.attribute):
        graphs = [name for name, value in vars(module).items() if isinstance(value, StateGraph | Pregel)]
        hint = f" Did you mean {graphs[0]!r}?" if graphs else ""
        raise UsageError(f"--graph {text!r}: {module.__name__} has no attribute {spec.attribute!r}.{hint}")
    value = getattr(module, spec.attribute)
    if isinstance(value, StateGraph | Pregel) or not callable(value):
        return LoadedGraph(text, as_graph(value, text))
    loaded = LoadedGraph(text, factory=value)
    if loaded.is_awaited or wanted_arguments(value, text):
        return loaded
    made = value()
    if inspect.isawaitable(made) or hasattr(made, "__aenter__") or hasattr(made, "__enter__"):
        # What it keeps open is for one item, in that item's process.
        if inspect.iscoroutine(made):
            made.close()
        return loaded
    return LoadedGraph(text, as_graph(made, text))


def wanted_arguments(factory: Callable[..., Any], spec: str) -> list[tuple[str, str]]:
    """Which of its parameters take the run's configuration and which its runtime. Raises UsageError for others."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    wanted = []
    for parameter in parameters:
        kind = "runtime" if "runtime" in f"{parameter.name} {parameter.annotation}".lower() else "config"
        is_known = parameter.name in ("config", "runtime") or "RunnableConfig" in str(parameter.annotation)
        if is_known or kind == "runtime":
            wanted.append((parameter.name, kind))
        elif parameter.default is parameter.empty and parameter.kind not in _GATHERING:
            raise UsageError(
                f"--graph {spec!r}: the function needs {parameter.name!r}, which AgentOS does not pass. A factory "
                "takes nothing, `config` or `runtime`; give other parameters a default."
            )
    return wanted


_GATHERING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def as_graph(value: Any, spec: str) -> AnyGraph:
    """A graph that can run, with all that its author compiled into it. Raises UsageError."""
    if isinstance(value, StateGraph):
        try:
            return value.compile()
        except Exception as error:
            raise UsageError(f"--graph {spec!r} does not compile: {error}") from error
    if not isinstance(value, Pregel):
        what = type(value).__name__ if value is not None else "None"
        ask = " Does the function return its graph?" if value is None else ""
        raise UsageError(
            f"--graph {spec!r} is {what}, not a LangGraph graph.{ask} Expected a StateGraph, a compiled one, an "
            "@entrypoint, or a function that returns one."
        )
    return value


def _import(spec: GraphSpec, search_dir: Path) -> ModuleType:
    for root in reversed(spec.import_roots(search_dir)):
        if str(root) not in sys.path[:1]:
            sys.path.insert(0, str(root))
    try:
        return _import_module(spec.module, search_dir) if spec.module else _import_file(spec)
    except ModuleNotFoundError as error:
        _explain_dependency(spec, error, search_dir)
        raise


def _import_module(name: str, search_dir: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"--graph: no module {name!r} on the path or in {search_dir}. For a file, write PATH.py:ATTR."
            ) from None
        raise


def _import_file(spec: GraphSpec) -> ModuleType:
    assert spec.file is not None
    name = module_name(spec.file)
    if "." in name and name.partition(".")[0] not in sys.modules:
        # In a package, so that its relative imports work.
        return importlib.import_module(name)
    # A file called like a module that is loaded already, `select.py` or `json.py`, must not take its place.
    name = spec.file.stem if "." not in name and name not in sys.modules else f"graph_{spec.file.stem}"
    specification = importlib.util.spec_from_file_location(name, spec.file)
    if specification is None or specification.loader is None:
        raise UsageError(f"--graph {spec.text!r}: {spec.file.name!r} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(specification)
    # Registered before it runs: pickles, dataclasses and type hints look modules up by name.
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _explain_dependency(spec: GraphSpec, error: ModuleNotFoundError, here: Path) -> None:
    listed = spec.project.other_dependencies if spec.project else ()
    what = f"{spec.project.path.name} lists {', '.join(listed)}. " if spec.project and listed else ""
    beside = python_beside(spec.places(here))
    python = shlex.quote(os.path.relpath(beside, here)) if beside else "PATH/.venv/bin/python"
    error.add_note(f"{what}Run with the interpreter that has it: --python {python}; or install it in {sys.prefix}.")
