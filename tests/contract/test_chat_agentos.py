"""`ChatAgentos` as LangChain uses a chat model: real SDKs over real HTTP, for each family of providers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from agentos import llm
from agentos.errors import UsageError
from agentos.llm.langchain import ChatAgentos
from agentos.testing.provider_server import Key, ProviderServer, Step
from fakes.recording_broker import RecordingBroker

MODELS = ["google:gemini-2.5-flash", "openai:gpt-4o-mini", "anthropic:claude-sonnet-4-6"]


class Verdict(BaseModel):
    """A judgement."""

    approved: bool
    comments: list[str]


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    name = model.partition(":")[0]
    llm.set_broker(RecordingBroker({"alpha": "SENTINEL-alpha-Zq81"}))
    with ProviderServer(keys=[Key(name="alpha", secret="SENTINEL-alpha-Zq81")]) as running:
        monkeypatch.setenv(f"AGENTOS_PROVIDERS__{name.upper()}__BASE_URL", running.base_url(name))
        yield running
        llm.close()
    llm.set_broker(None)


def test_it_answers_streams_and_counts_in_sync_and_async_code(model: str, server: ProviderServer) -> None:
    chat = ChatAgentos(model=model, temperature=0.5, max_output_tokens=100)
    asked = [SystemMessage("Be brief."), HumanMessage("Say hello to the world")]
    answer = chat.invoke(asked)
    chunks = list(chat.stream(asked))
    later = asyncio.run(chat.ainvoke(asked))

    async def read() -> list[AIMessageChunk]:
        return [chunk async for chunk in chat.astream(asked)]

    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert isinstance(answer, AIMessage)
    assert answer.text == later.text == whole.text == "Say hello to the world"
    assert "".join(chunk.text for chunk in asyncio.run(read())) == "Say hello to the world"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] > 0
    assert whole.usage_metadata == answer.usage_metadata
    assert answer.response_metadata["model_name"] == model
    assert {seen.system for seen in server.requests} == {"Be brief."}


def test_tools_are_bound_called_and_answered(model: str, server: ProviderServer) -> None:
    chat = ChatAgentos(model=model).bind_tools([add], tool_choice="any")
    server.script("alpha", Step(output={"first": 3, "second": 4}), Step(text="It is 7."))
    question = HumanMessage("Add 3 and 4")
    wish = chat.invoke([question])
    (call,) = wish.tool_calls
    answer = ChatAgentos(model=model).bind_tools([add]).invoke([question, wish, add.invoke(call)])
    server.script("alpha", Step(output={"first": 1, "second": 2}))
    streamed: Any = None
    for chunk in chat.stream([question]):
        streamed = chunk if streamed is None else streamed + chunk

    assert (call["name"], call["args"]) == ("add", {"first": 3, "second": 4})
    assert isinstance(add.invoke(call), ToolMessage)
    assert answer.text == "It is 7."
    assert [each["args"] for each in streamed.tool_calls] == [{"first": 1, "second": 2}]


def test_structured_output_is_a_value_of_the_schema(model: str, server: ProviderServer) -> None:
    server.script("alpha", Step(output={"approved": True, "comments": ["fine"]}))
    judged = ChatAgentos(model=model).with_structured_output(Verdict).invoke("Judge it")

    assert judged == Verdict(approved=True, comments=["fine"])


def test_what_it_cannot_do_is_an_error_and_offline_answers_say_what_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENTOS_MODEL", "offline")
    chat = ChatAgentos()
    with pytest.raises(UsageError, match="does not take 'top_logprobs'"):
        chat.invoke("Hello", top_logprobs=3)
    with pytest.raises(UsageError, match=r"does not take 'max_tokens'\. Did you mean max_output_tokens"):
        ChatAgentos(max_tokens=3)  # type: ignore[call-arg]
    assert ChatAgentos(name="judge", tags=["a"], verbose=False).name == "judge"
    with pytest.raises(UsageError, match="takes no other method"):
        chat.with_structured_output(Verdict, method="json_schema")

    assert chat.invoke("Hello").text.startswith("Offline answer ")
    assert isinstance(chat.with_structured_output(Verdict).invoke("Judge it"), Verdict)
