"""What `generate` and `ChatAgentos` take, in workers of a real run: tools, streams, and models that step in."""

from __future__ import annotations

from harness import Sandbox
from providers import PoolKey, provider

from agentos.testing.provider_server import Step

FLOW = """
from typing import TypedDict

from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    what: str
    answer: str


def add(first: int, second: int) -> int:
    "Add two numbers."
    return first + second


def chat(state):
    from agentos.llm.langchain import ChatAgentos

    model = ChatAgentos(model="google:gemini-2.5-flash")
    wish = model.bind_tools([add], tool_choice="any").invoke([HumanMessage("Add")])
    streamed = "".join(chunk.text for chunk in model.stream("streamed in pieces"))
    return {"answer": f"{wish.tool_calls[0]['name']}, {streamed}"}


def step_in(state):
    from agentos.llm import generate

    reply = generate("hello", model="google:gemini-2.5-pro", fallback=["openai:gpt-4o-mini"])
    return {"answer": f"{reply.model} says {reply.text}"}


def work(state):
    answer = {"chat": chat, "step_in": step_in}[state["what"]](state)
    print(answer["answer"])
    return answer


graph = StateGraph(State).add_node("work", work).add_edge(START, "work").add_edge("work", END)
"""


def test_workers_use_tools_streams_and_models_that_step_in(sandbox: Sandbox) -> None:
    keys = (PoolKey(name="alpha"), PoolKey(name="other", provider="openai"))
    with provider(sandbox, *keys) as server:
        # A day's quota is gone: nobody waits for it who has another model to ask.
        server.script("prompt:hello", Step(kind="daily_limit"))
        (sandbox.project / "flow.py").write_text(FLOW)
        sandbox.write_items(
            {"id": "a", "input": {"what": "chat"}},
            {"id": "b", "input": {"what": "step_in"}},
        )
        ran = sandbox.run(graph="flow.py:graph")

    assert ran.code == 0, ran.stdout + ran.stderr
    assert "[a] add, streamed in pieces" in ran.stdout
    assert "[b] openai:gpt-4o-mini says hello" in ran.stdout
    assert server.hits("alpha") == 3
