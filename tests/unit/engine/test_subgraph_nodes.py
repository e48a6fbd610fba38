"""Nodes of subgraphs: announced before they run, in the main thread, by their way from the top."""

from __future__ import annotations

import operator
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt

from agentos.engine import checkpoints
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.checkpoints.sqlite import SqliteStore
from agentos.engine.graph import Continuation, Execution, GraphChanged, RunOptions


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


def stopped_once(tmp_path: Path, graph: Any, given: Any) -> Any:
    """The output of a run that was stopped by one of its nodes, and resumed by another process as it were."""
    store, ref = SqliteStore(tmp_path), ItemRef("flow", "1")
    with closing(store.open(ref)) as checkpoint, pytest.raises(KeyboardInterrupt):
        Execution(graph, checkpoint).run(given, lambda _node: None)
    with closing(store.open(ref)) as checkpoint:
        resumed = Execution(graph, checkpoint)
        resumed.run(None, lambda _node: None)
    return resumed.output


def stopping_at(call: int) -> Any:
    """Stops the process that makes this call."""
    calls: list[None] = []

    def stop_perhaps() -> None:
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt

    return stop_perhaps


def test_an_item_resumes_at_a_node_that_hands_over_to_the_graph_above(tmp_path: Path) -> None:
    stop_perhaps = stopping_at(1)

    def hand_over(_state: State) -> Command[Any]:
        stop_perhaps()
        return Command(goto="bob", graph=Command.PARENT, update={"said": ["over"]})

    alice = chain(("work", lambda _state: {"said": ["work"]}), ("hand_over", hand_over)).compile()
    graph: Any = StateGraph(State)
    graph.add_node("alice", alice, destinations=("bob",))
    graph.add_node("bob", lambda _state: {"said": ["bob"]})
    graph.add_edge(START, "alice")

    assert stopped_once(tmp_path, graph.compile(), {"said": []}) == {"said": ["over", "bob"]}


def test_a_graph_that_keeps_its_history_takes_its_next_input_after_a_resume(tmp_path: Path) -> None:
    stop_perhaps = stopping_at(2)
    memory = chain(("keep", lambda _state: {"said": ["kept"]})).compile(checkpointer=True)

    def ask(_state: State) -> State:
        stop_perhaps()
        return {"said": [f"{len(memory.invoke({'said': ['asked']})['said'])} known"]}

    graph: Any = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: END if len(state["said"]) == 3 else "ask")

    assert stopped_once(tmp_path, graph.compile(), {"said": []}) == {"said": ["2 known", "4 known", "6 known"]}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_compiled_without_a_checkpointer_runs_inside_of_another(is_async: bool) -> None:
    inner = chain(("one", say("one"))).compile(checkpointer=False)
    with closing(checkpoints.scratch()) as checkpoint:
        execution = Execution(chain(("PART", inner)).compile(), checkpoint, RunOptions(is_async=is_async))
        execution.run({"said": []}, lambda _node: None)

    assert [word.partition(" ")[0] for word in execution.output["said"]] == ["one"]


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
