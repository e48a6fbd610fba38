"""How a step of a workflow becomes a node: its state is typed, its model calls go by the workflow's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast

from agentos.llm import set_call_context
from agentos.llm.context import calls_made
from agentos.workflows.context import Context, current
from agentos.workflows.stage_records import ForeignCheckpoint, as_plain, as_record, hints

_State = TypeVar("_State")
_Update = TypeVar("_Update")
Step = Callable[[_State, Context], _Update]
Plain = dict[str, Any]


def as_node(schema: type[_State], workflow: str, name: str, step: Step[_State, Any]) -> Callable[[Plain], Plain]:
    """A node as LangGraph calls it. The state keeps `calls`, so that a resumed node counts on where it was.

    The names are the same whichever graph the node is part of: one recording serves them all.
    """

    def run(state: Plain) -> Plain:
        place = {"workflow": workflow, "item": state["item_id"]}
        set_call_context(**place, node=name, calls_before=state["calls"].get(name, 0))
        update = step(_typed(schema, state), current())
        return {**as_plain(update), "calls": {name: calls_made(**place).get(name, 0)}}

    return run


def as_choice(schema: type[_State], choose: Callable[[_State, Context], str]) -> Callable[[Plain], str]:
    """A choice between nodes as LangGraph calls it."""
    return lambda state: choose(_typed(schema, state), current())


class _Records(dict[str, Any]):
    """A typed state. Each stage has its record from the first node on: one that is not there was never written."""

    def __missing__(self, key: str) -> NoReturn:
        raise ForeignCheckpoint from KeyError(key)


def _typed(schema: type[_State], state: Mapping[str, Any]) -> _State:
    kinds = hints(schema)
    return cast(_State, _Records({key: as_record(kinds[key], value) for key, value in state.items()}))
