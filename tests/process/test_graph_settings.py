"""What a graph is run with: configuration, context, environment, a store, keys; and what a person answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Finished, Sandbox
from test_any_graph import write

CONFIGURED = """
    import os
    from dataclasses import dataclass
    from typing import TypedDict
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import START, StateGraph
    from langgraph.runtime import Runtime

    @dataclass
    class Context:
        tone: str = "plain"

    class State(TypedDict, total=False):
        text: str
        seen: dict

    def look(state: State, config: RunnableConfig, runtime: Runtime[Context]):
        runtime.store.put(("items",), os.environ["AGENTOS_ITEM_ID"], {"tone": runtime.context.tone})
        return {"seen": {
            "model": config["configurable"].get("model"),
            "limit": config["recursion_limit"],
            "tone": runtime.context.tone,
            "place": os.environ.get("PLACE"),
            "stored": len(runtime.store.search(("items",))),
        }}

    def need_key(_):
        return {"text": "key of " + str(len(os.environ["MY_KEY"]))}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("look", look)
    graph.add_edge(START, "look")

    keyed = StateGraph(State)
    keyed.add_node("need_key", need_key)
    keyed.add_edge(START, "need_key")
"""

HALFWAY = """
    import operator
    import os
    from dataclasses import dataclass
    from typing import Annotated, TypedDict
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import START, StateGraph
    from langgraph.runtime import Runtime

    @dataclass
    class Context:
        tone: str = "plain"

    class State(TypedDict, total=False):
        said: Annotated[list, operator.add]

    def say(_: State, config: RunnableConfig, runtime: Runtime[Context]):
        return {"said": [f"{runtime.context.tone} {config['configurable'].get('model')}"]}

    def say_when_ready(state: State, config: RunnableConfig, runtime: Runtime[Context]):
        assert os.path.exists("ready")
        return say(state, config, runtime)

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("say", say)
    graph.add_node("again", say_when_ready)
    graph.add_edge(START, "say")
    graph.add_edge("say", "again")
"""

ASKING = """
    from typing import Annotated, TypedDict
    import operator
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    class State(TypedDict, total=False):
        draft: str
        said: Annotated[list, operator.add]

    def number(_):
        answer = interrupt("a number?")
        return {"said": [int(answer) + int(interrupt("another?"))]}

    def name(_):
        return {"said": [interrupt({"ask": "a name?"})]}

    both = StateGraph(State)
    both.add_node("number", number)
    both.add_node("name", name)
    both.add_edge(START, "number")
    both.add_edge(START, "name")

    gate = StateGraph(State)
    gate.add_node("write", lambda _: {"draft": "first"})
    gate.add_node("send", lambda state: {"said": ["sent " + state["draft"]]})
    gate.add_edge(START, "write")
    gate.add_edge("write", "send")
    stopping = gate.compile(interrupt_before=["send"])
"""

MADE = """
    import contextlib
    from dataclasses import dataclass
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph_sdk.runtime import ServerRuntime

    @dataclass
    class Context:
        tone: str = "plain"

    @contextlib.asynccontextmanager
    async def make(runtime: ServerRuntime[Context]):
        running = runtime.execution_runtime
        tone = running.context["tone"]
        await running.store.aput(("tones",), tone, {"seen": True})

        async def call(state):
            [found] = await running.store.asearch(("tones",))
            model = GenericFakeChatModel(messages=iter([AIMessage(f"stays {found.key}")]))
            return {"messages": [chunk async for chunk in model.astream(state["messages"])][-1:]}

        graph = StateGraph(MessagesState, context_schema=Context)
        graph.add_node("call", call)
        graph.add_edge(START, "call")
        yield graph
"""


def states(done: Finished) -> dict[str, Any]:
    return {line["id"]: line["state"] for line in map(json.loads, done.lines)}


def test_configuration_context_environment_and_store_reach_the_nodes(sandbox: Sandbox) -> None:
    write(sandbox, "configured.py", CONFIGURED)
    own = {"context": {"tone": "loud"}, "config": {"configurable": {"model": "b"}}, "env": {"PLACE": "here"}}
    sandbox.write_items({"id": "i1"}, {"id": "i2", **own})
    common = ["--config", '{"configurable": {"model": "a", "thread_id": "x"}}', "--recursion-limit", "7"]

    done = sandbox.run(*common, "--output", "-", graph="configured.py:graph")

    assert "Warning: config: thread_id is not taken" in done.stderr
    assert done.code == 0, done
    assert [state["seen"] for state in states(done).values()] == [
        {"model": "a", "limit": 7, "tone": "plain", "place": None, "stored": 1},
        {"model": "b", "limit": 7, "tone": "loud", "place": "here", "stored": 2},
    ]


def test_what_langgraph_takes_for_configurable_is_part_of_the_item_and_never_another_checkpoint(
    sandbox: Sandbox,
) -> None:
    write(sandbox, "halfway.py", HALFWAY)
    sandbox.write_items({"id": "a", "context": {"tone": "loud"}, "config": {"checkpoint_id": "x"}})
    began = ["--config", '{"model": "a", "thread_id": "another"}']
    first = sandbox.run(*began, graph="halfway.py:graph")
    assert first.code == 1
    assert "thread_id, checkpoint_id are not taken" in first.stdout
    (sandbox.project / "ready").touch()

    refused = sandbox.run("--config", '{"model": "b"}', graph="halfway.py:graph")
    assert refused.code == 1
    assert "the context or configuration has changed" in sandbox.endings()["a"]["reason"]
    resumed = sandbox.run(*began, "--output", "-", graph="halfway.py:graph")

    assert states(resumed) == {"a": {"said": ["loud a", "loud a"]}}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('{"configurable": 5}', "--config: configurable must be an object, got 5"),
        ('{"recursion_limit": "x"}', "recursion_limit must be a whole number"),
        ('{"recursion_limit": 0}', "recursion_limit must be at least 1"),
        ('{"tags": "one"}', "tags must be a list"),
        ('{"callbacks": []}', "callbacks cannot be given here"),
        ('{"configurable": {"x": NaN}}', "NaN is not a number in JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("[1]", "expected an object"),
        ('{"a": ' * 300 + "1" + "}" * 300, "nested too deeply"),
    ],
)
def test_a_configuration_that_langgraph_could_not_take_is_refused_before_the_start(
    sandbox: Sandbox, given: str, why: str
) -> None:
    write(sandbox, "halfway.py", HALFWAY)
    sandbox.write_items({"id": "a"})

    done = sandbox.run("--config", given, graph="halfway.py:graph")

    assert done.code == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_item_does_not_resume_with_another_context_or_configuration(sandbox: Sandbox) -> None:
    write(sandbox, "halfway.py", HALFWAY)
    sandbox.write_items({"id": "a"})
    began = ["--context", '{"tone": "loud"}', "--config", '{"configurable": {"model": "a"}}']
    assert sandbox.run(*began, graph="halfway.py:graph").code == 1
    (sandbox.project / "ready").touch()

    for changed in (["--context", '{"tone": "low"}', *began[2:]], began[:2]):
        refused = sandbox.run(*changed, graph="halfway.py:graph")
        assert refused.code == 1
        assert "the context or configuration has changed" in sandbox.endings()["a"]["reason"]
    resumed = sandbox.run(*began, "--recursion-limit", "9", "--output", "-", graph="halfway.py:graph")

    assert states(resumed) == {"a": {"said": ["loud a", "loud a"]}}


def test_a_factory_gets_the_runtime_and_streamed_tokens_are_counted_and_shown_on_request(sandbox: Sandbox) -> None:
    write(sandbox, "made.py", MADE)
    sandbox.write_items({"id": "a", "input": {"messages": ["hi"]}})
    command = ["--context", '{"tone": "loud"}', "--output", "-"]

    done = sandbox.run(*command, graph="made.py:make")
    shown = sandbox.run(*command, "--show-tokens", "--fresh", graph="made.py:make")

    for each in (done, shown):
        assert each.code == 0, each
        [line] = map(json.loads, each.lines)
        assert line["state"]["messages"][-1]["content"] == "loud"
        assert (line["usage"]["models"]["calls"], line["usage"]["models"]["chunks"]) == (1, 3)
    assert "stays" not in done.stderr
    assert "[a] stays loud" in shown.stderr


def test_a_key_variable_is_kept_from_workers_and_named_or_passed_on(sandbox: Sandbox) -> None:
    write(sandbox, "configured.py", CONFIGURED)
    sandbox.write_items({"id": "a"})
    env = {"OPENAI_API_KEY": "sk-not-a-real-one", "MY_KEY": "sk-not-a-real-one"}

    failed = sandbox.run("--budget", "1", graph="configured.py:keyed", env=env)
    passed = sandbox.run("--pass-env", "MY_KEY", "--budget", "1", graph="configured.py:keyed", env=env)

    assert failed.code == 1
    assert "MY_KEY is set, but holds a key" in failed.stdout
    assert "--pass-env MY_KEY" in failed.stdout
    assert passed.code == 0, passed
    head = "workers get MY_KEY: the pool and the budget do not see what they call with it"
    assert f"[COORDINATOR] Warning: {head}" in passed.lines
    unset = sandbox.run("--pass-env", "NOWHERE", graph="configured.py:keyed")
    assert (unset.code, "--pass-env NOWHERE: it is not set" in unset.stderr) == (2, True)


def test_questions_are_answered_one_by_one_and_a_wrong_answer_is_replaced(sandbox: Sandbox) -> None:
    write(sandbox, "asking.py", ASKING)
    sandbox.write_items({"id": "a"})

    def go_on() -> dict[str, Any]:
        done = sandbox.run("--output", "-", graph="asking.py:both")
        return dict(json.loads(done.lines[0]))

    def answer(*words: str) -> Finished:
        return sandbox.command("review", "a", *words)

    asked = go_on()
    assert asked["outcome"] == "awaiting_review"
    values = {str(each["value"]): each["id"] for each in asked["interrupts"]}
    assert set(values) == {"a number?", "{'ask': 'a name?'}"}
    [waiting] = json.loads(sandbox.command("review", "--json").stdout)
    assert set(waiting["interrupt_ids"]) == set(values.values())
    assert "asks 2 questions" in answer("--answer", '"7"').stderr

    number = values["a number?"]
    assert answer("--answer", '"seven"', "--question", number).code == 0
    assert go_on()["error"]["type"] == "ValueError"
    assert answer("--answer", '"7"', "--question", number).code == 0
    again = go_on()
    assert [each["value"] for each in again["interrupts"]] == ["another?", {"ask": "a name?"}]
    second = next(each["id"] for each in again["interrupts"] if each["value"] == "another?")
    answer("--answer", '"1"', "--question", second)
    answer(
        "--answer", '"bo"', "--question", str(1 + [e["value"] for e in again["interrupts"]].index({"ask": "a name?"}))
    )
    done = go_on()
    assert (done["outcome"], sorted(map(str, done["state"]["said"]))) == ("completed", ["8", "bo"])


def test_a_graph_that_stops_before_a_node_waits_and_its_state_can_be_edited(sandbox: Sandbox) -> None:
    write(sandbox, "asking.py", ASKING)
    sandbox.write_items({"id": "a"}, {"id": "b"})
    assert sandbox.run(graph="asking.py:stopping").code == 3
    assert "agentos review a --approve" in sandbox.command("review", "a").stdout

    assert sandbox.command("review", "a", "--edit", '{"draft": "second"}').code == 0
    assert sandbox.command("review", "b", "--approve").code == 0
    done = sandbox.run("--output", "-", graph="asking.py:stopping")

    assert done.code == 0, done
    assert {i: state["said"] for i, state in states(done).items()} == {"a": ["sent second"], "b": ["sent first"]}


@pytest.mark.slow
def test_two_graphs_ask_of_one_id_and_every_printed_line_leads_to_an_answer(sandbox: Sandbox) -> None:
    write(sandbox, "asking.py", ASKING)
    sandbox.write_items({"id": "a"})
    parked = [sandbox.run(graph=f"asking.py:{graph}").stdout for graph in ("both", "stopping")]
    assert "[a] asks you: a number? (and 1 more)" in parked[0]
    assert "[a] stopped before send and waits for you" in parked[1]

    listed = sandbox.command("review").lines
    assert {line.partition("  ")[0] for line in listed} == {"asking-both/a", "asking-stopping/a"}
    shown = sandbox.command("review", "a")  # as both runs have said
    assert shown.code == 0, shown
    lines = [line.partition("Answer with: ")[2] for line in shown.lines if "Answer with: " in line]
    assert [sandbox.start_command("-c", line, program=Path("/bin/sh")).wait().code for line in lines] == [0, 0]

    one_left = sandbox.command("review", "asking-both/a").stdout
    assert "review asking-both/a --answer '\"yes\"' --question 2" in one_left
    failed = sandbox.run(graph="asking.py:both")
    assert failed.code == 1  # "yes" is no number
    assert "[a] failed with the answer it was given. To give another: agentos review a" in failed.lines


def test_an_edit_of_a_key_that_the_state_does_not_have_is_refused(sandbox: Sandbox) -> None:
    write(sandbox, "asking.py", ASKING)
    sandbox.write_items({"id": "a"})
    sandbox.run(graph="asking.py:stopping")
    sandbox.command("review", "a", "--edit", '{"drafft": "second"}')

    done = sandbox.run(graph="asking.py:stopping")

    assert done.code == 1
    assert "the graph's state has no key 'drafft'" in done.stdout
    sandbox.command("review", "a", "--edit", '{"draft": "second"}')
    assert sandbox.run(graph="asking.py:stopping").code == 0


ASKING_TWICE = """
    from pathlib import Path
    from typing import TypedDict
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    class State(TypedDict, total=False):
        draft: str
        said: list

    def ask(state: State):
        if state.get("draft") == "unlucky" and not Path("failed").exists():
            Path("failed").touch()
            raise ValueError("fails once")
        return {"said": [interrupt("first?"), interrupt("second?")]}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    flat = inner.compile()
    nested = StateGraph(State)
    nested.add_node("inner", flat)
    nested.add_edge(START, "inner")
"""


@pytest.mark.parametrize("graph", ["asking.py:flat", "asking.py:nested"])
def test_an_answer_to_a_later_question_is_not_given_to_the_first_one_after_an_edit(
    sandbox: Sandbox, graph: str
) -> None:
    write(sandbox, "asking.py", ASKING_TWICE)
    sandbox.write_items({"id": "a"})
    sandbox.run(graph=graph)
    sandbox.command("review", "a", "--answer", '"one"')
    sandbox.run(graph=graph)
    sandbox.command("review", "a", "--answer", '"two"', "--edit", '{"draft": "better"}')

    edited = sandbox.run(graph=graph)

    assert edited.code == 3, edited
    assert "The new answer was to a later question and is not used." in edited.stdout
    assert sandbox.command("review", "a").lines[0] == "first?"
    sandbox.command("review", "a", "--answer", '"one"')
    sandbox.run(graph=graph)
    sandbox.command("review", "a", "--answer", '"two"')
    done = sandbox.run("--output", "-", graph=graph)
    assert states(done) == {"a": {"draft": "better", "said": ["one", "two"]}}


def test_a_question_that_an_edit_has_undone_takes_no_answer(sandbox: Sandbox) -> None:
    """Its node has failed since, before it asked anything."""
    graph = "asking.py:flat"
    write(sandbox, "asking.py", ASKING_TWICE)
    sandbox.write_items({"id": "a"})
    sandbox.run(graph=graph)
    sandbox.command("review", "a", "--answer", '"one"')
    sandbox.run(graph=graph)
    sandbox.command("review", "a", "--edit", '{"draft": "unlucky"}')
    assert sandbox.run(graph=graph).code == 1

    refused = sandbox.command("review", "a", "--answer", '"two"')

    assert refused.code == 2
    assert "a is an item of the graph asking-flat and asks nothing now" in refused.stderr
    assert sandbox.run(graph=graph).code == 3
    assert sandbox.command("review", "a").lines[0] == "first?"


ASKING_ON = """
    from typing import TypedDict
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    class State(TypedDict, total=False):
        told: list

    def ask(_: State):
        told = []
        while (answer := interrupt("age?")) != 7:
            if answer == "bad":
                raise ValueError("not a number")
            told.append(answer)
        return {"told": told}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    graph = StateGraph(State)
    graph.add_node("inner", inner.compile())
    graph.add_edge(START, "inner")
"""


def test_a_question_that_is_asked_again_in_the_same_words_is_another_one(sandbox: Sandbox) -> None:
    write(sandbox, "asking_on.py", ASKING_ON)
    sandbox.write_items({"id": "a"})
    for answer in (1, "bad", 2):
        sandbox.run(graph="asking_on.py:graph")
        assert sandbox.command("review", "a", "--answer", json.dumps(answer)).code == 0
    assert sandbox.run(graph="asking_on.py:graph").code == 3
    sandbox.command("review", "a", "--answer", "7")

    done = sandbox.run("--output", "-", graph="asking_on.py:graph")

    assert states(done) == {"a": {"told": [1, 2]}}


FORGETFUL = """
    import os
    from typing import TypedDict
    from langgraph.graph import START, StateGraph
    from langgraph.runtime import Runtime
    from langgraph.store.memory import InMemoryStore

    class State(TypedDict, total=False):
        found: int

    def put(_: State, runtime: Runtime):
        runtime.store.put(("seen",), "one", {"yes": True})

    def count(_: State, runtime: Runtime):
        assert os.path.exists("ready")
        return {"found": len(runtime.store.search(("seen",)))}

    builder = StateGraph(State)
    builder.add_node("put", put)
    builder.add_node("count", count)
    builder.add_edge(START, "put")
    builder.add_edge("put", "count")
    own = builder.compile(store=InMemoryStore())
    ours = builder.compile()
"""


def test_an_item_that_resumes_without_what_its_nodes_kept_in_memory_says_so(sandbox: Sandbox) -> None:
    write(sandbox, "forgetful.py", FORGETFUL)
    sandbox.write_items({"id": "a"})
    firsts = [sandbox.run(graph=f"forgetful.py:{name}") for name in ("own", "ours")]
    assert [first.code for first in firsts] == [1, 1]
    (sandbox.project / "ready").touch()

    own, ours = (sandbox.run(graph=f"forgetful.py:{name}") for name in ("own", "ours"))

    assert (own.code, ours.code) == (0, 0)
    gone = "[a] What nodes had put into the graph's InMemoryStore is gone: it ended with their process."
    assert any(line.startswith(gone) for line in own.lines)
    assert "InMemoryStore" not in "".join(each.stdout for each in (*firsts, ours))
