"""Nodes of subgraphs: announced before they run, in the main thread, by their way from the top."""

from __future__ import annotations

import operator
import threading
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Send, interrupt

from agentos.engine import checkpoints
from agentos.engine.graph import Continuation, Execution, GraphChanged


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


def failing(_state: Any) -> Any:
    raise ValueError("later")


@pytest.mark.parametrize("where", ["top", "subgraph"])
def test_a_renamed_node_is_noticed_wherever_the_item_would_resume(where: str) -> None:
    def graph(second: str, work: Any) -> Any:
        inner = chain(("one", say("one")), (second if where == "subgraph" else "two", work)).compile()
        top = (second if where == "top" else "PART", inner)
        return chain(("first", say("first")), top).compile()

    with closing(checkpoints.scratch()) as checkpoint:
        with pytest.raises(ValueError, match="later"):
            Execution(graph("before", failing), checkpoint).run({"said": []}, lambda _node: None)
        lost = "'before'" if where == "top" else r"'PART\.before'"
        with pytest.raises(GraphChanged, match=f"the way to node {lost}"):
            Execution(graph("after", say("two")), checkpoint).run(None, lambda _node: None)
        restored = Execution(graph("before", say("two")), checkpoint)
        restored.run(None, lambda _node: None)

    # A subgraph hands its whole list to the list above it.
    assert [word.partition(" ")[0] for word in restored.output["said"]] == ["first", "first", "one", "two"]


def test_what_a_compiled_graph_carries_stays() -> None:
    store = InMemoryStore()
    seen: dict[str, Any] = {}

    def look(_state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> None:
        seen.update(limit=config["recursion_limit"], voice=config["configurable"]["voice"], store=runtime.store)

    compiled = chain(("look", look), ("last", say("last"))).compile(
        store=store, name="mine", interrupt_after=["look"]
    )
    graph = compiled.with_config(recursion_limit=7, configurable={"voice": "low"})
    with closing(checkpoints.scratch()) as checkpoint:
        execution = Execution(graph, checkpoint)
        execution.run({"said": []}, lambda _node: None)
        assert seen == {"limit": 7, "voice": "low", "store": store}
        assert (execution.is_parked, execution.questions) == (True, [{"stopped": "before", "next": ["last"]}])
        checkpoint.park(execution.questions, execution.interrupt_ids)
        person = Continuation.of(replace(checkpoint.standing, answer={"action": "approve"}))
        Execution(graph, checkpoint).run(None, lambda _node: None, person)
        assert compiled.checkpointer is None
        assert checkpoint.standing.resumes_after == "last"
