"""Steps as nodes: typed on the inside, plain on the outside, their calls counted on over a resume."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from agentos.llm.context import CallPlace, next_call_place
from agentos.workflows.context import Context
from agentos.workflows.drafting.state import Draft
from agentos.workflows.node import as_choice, as_node
from agentos.workflows.stage_records import ForeignCheckpoint


class State(TypedDict, total=False):
    item_id: str
    calls: Annotated[dict[str, int], operator.or_]
    draft: Draft


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_node_gets_records_and_the_context_and_leaves_plain_data(tmp_path: Path) -> None:
    def grow(state: State, context: Context) -> State:
        return State(draft=Draft(f"{state['draft'].text} in {context.project_dir.name}", round=1))

    node = as_node(State, "lld", "grow", grow)
    update = node({"item_id": "1", "calls": {}, "draft": {"text": "a text"}})

    assert update == {"draft": {"text": f"a text in {tmp_path.name}", "round": 1}, "calls": {"grow": 0}}


def test_a_resumed_node_counts_its_calls_from_where_it_was() -> None:
    places: list[CallPlace] = []

    def call(_state: State, _context: Context) -> State:
        places.append(next_call_place())
        return State()

    update = as_node(State, "lld", "N1_design", call)({"item_id": "7", "calls": {"N1_design": 2}})

    assert places == [CallPlace(workflow="lld", item="7", node="N1_design", round=3)]
    assert update["calls"] == {"N1_design": 3}


def test_a_state_of_another_version_is_refused() -> None:
    def choose(state: State, _context: Context) -> str:
        return state["draft"].text

    old: dict[str, Any] = {"item_id": "1", "calls": {}}
    for saved in (old, {**old, "draft": "only a text"}):
        with pytest.raises(ForeignCheckpoint, match="--fresh"):
            as_choice(State, choose)(saved)
