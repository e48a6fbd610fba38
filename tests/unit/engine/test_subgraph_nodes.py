"""Nodes of subgraphs: announced before they run, in the main thread, by their way from the top."""

from __future__ import annotations

import operator
import threading
from contextlib import closing
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from agentos.engine import checkpoints
from agentos.engine.graph import Continuation, Execution


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def chain(*nodes: tuple[str, Any]) -> Any:
    graph: Any = StateGraph(State)
    names = [name for name, _ in nodes]
    for name, node in nodes:
        graph.add_node(name, node)
    for start, end in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(start, end)
    return graph


def say(word: str) -> Any:
    return lambda _state: {"said": [f"{word} {threading.current_thread() is threading.main_thread()}"]}


def test_nodes_of_subgraphs_are_announced_and_finished_in_order() -> None:
    deepest = chain(("a", say("a")), ("b", say("b"))).compile()
    inner = chain(("first", say("first")), ("deep", deepest)).compile()
    graph = chain(("PART", inner), ("last", say("last"))).compile()
    announced: list[str] = []
    with closing(checkpoints.scratch()) as checkpoint:
        execution = Execution(graph, checkpoint)
        execution.run({"said": []}, announced.append)
        standing = checkpoint.standing

    assert announced == ["PART.first", "PART.deep.a", "PART.deep.b", "last"]
    assert [name for name, _ in execution.collect_finished()] == announced
    assert standing.resumes_after == "last"


def test_a_refused_node_of_a_subgraph_does_not_run_and_is_where_the_item_continues() -> None:
    ran: list[str] = []

    def note(word: str) -> Any:
        return lambda _state: ran.append(word)

    inner = chain(("one", note("one")), ("two", note("two"))).compile()
    graph = chain(("PART", inner)).compile()

    def refuse_two(node: str) -> None:
        if node == "PART.two":
            raise KeyboardInterrupt

    with closing(checkpoints.scratch()) as checkpoint:
        with pytest.raises(KeyboardInterrupt):
            Execution(graph, checkpoint).run({"said": []}, refuse_two)
        assert checkpoint.standing.resumes_after == "PART.one"
        announced: list[str] = []
        Execution(graph, checkpoint).run(None, announced.append)

    assert announced == ["PART.two"]
    assert ran == ["one", "two"]


def test_a_subgraph_asks_twice_and_each_answer_goes_to_its_own_question() -> None:
    def ask(question: str) -> Any:
        return lambda _state: {"said": [f"{question} {interrupt(question)}"]}

    graph = chain(("PART", chain(("one", ask("first?")), ("two", ask("second?"))).compile())).compile()
    with closing(checkpoints.scratch()) as checkpoint:
        first = Execution(graph, checkpoint)
        first.run({"said": []}, lambda _node: None)
        second = Execution(graph, checkpoint)
        second.run(None, lambda _node: None, person=Continuation(answers={"": "yes"}))
        third = Execution(graph, checkpoint)
        third.run(None, lambda _node: None, person=Continuation(answers={"": "no"}))

    assert (first.is_parked, first.questions) == (True, ["first?"])
    assert (second.is_parked, second.questions) == (True, ["second?"])
    assert third.final_state["said"] == ["first? yes", "second? no"]


def test_nodes_side_by_side_in_a_subgraph_are_all_announced() -> None:
    inner: Any = StateGraph(State)
    inner.add_node("each", say("each"))
    inner.add_conditional_edges(START, lambda _state: [Send("each", {}) for _ in range(4)], ["each"])
    graph = chain(("PART", inner.compile()), ("last", say("last"))).compile()
    announced: list[str] = []
    with closing(checkpoints.scratch()) as checkpoint:
        execution = Execution(graph, checkpoint)
        execution.run({"said": []}, announced.append)

    assert announced == ["PART.each"] * 4 + ["last"]
    assert [name for name, _ in execution.collect_finished()] == announced
