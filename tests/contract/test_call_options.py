"""What `generate` takes beside a prompt: the real SDKs over real HTTP, for each family of providers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentos import llm
from agentos.errors import AgentosError, UsageError
from agentos.llm import attempts
from agentos.llm.retries import RetryPolicy
from agentos.providers.evidence import Abandoned, Overloaded, Succeeded, TransportFailed
from agentos.testing.provider_server import Key, ProviderServer, Step
from fakes.recording_broker import RecordingBroker

MODELS = {
    "google": "google:gemini-2.5-flash",
    "openai": "openai:gpt-4o-mini",
    "anthropic": "anthropic:claude-sonnet-4-6",
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def add(first: int, second: int = 2) -> int:
    """Add two numbers."""
    return first + second


class Verdict(BaseModel):
    approved: bool
    comments: list[str]


@dataclass
class Setting:
    provider: str
    model: str
    server: ProviderServer
    broker: RecordingBroker

    @property
    def body(self) -> dict[str, Any]:
        """Of the last request."""
        return dict(self.server.requests[-1].body)


@pytest.fixture(params=list(MODELS))
def setting(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    name = str(request.param)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    monkeypatch.setattr(attempts, "retry_policy", RetryPolicy(base_seconds=0.01, cap_seconds=0.02))
    broker = RecordingBroker({"alpha": "SENTINEL-alpha-Zq81"})
    llm.set_broker(broker)
    with ProviderServer(keys=[Key(name="alpha", secret="SENTINEL-alpha-Zq81")]) as server:
        for each in MODELS:
            monkeypatch.setenv(f"AGENTOS_PROVIDERS__{each.upper()}__BASE_URL", server.base_url(each))
        yield Setting(name, MODELS[name], server, broker)
        llm.close()
    llm.set_broker(None)
    assert broker.is_settled(), "a lease was not released exactly once"


def test_tools_are_called_and_their_results_answered(setting: Setting) -> None:
    setting.server.script("alpha", Step(output={"first": 3, "second": 4}))
    asked = llm.generate("Add 3 and 4", model=setting.model, tools=[add], tool_choice="required")
    (call,) = asked.tool_calls
    result = str(add(**call.arguments))
    setting.server.script("alpha", Step(text="It is 7."))
    answered = llm.generate(
        [
            {"role": "user", "content": "Add 3 and 4"},
            asked.message,
            {"role": "tool", "tool_call_id": call.id, "content": result},
        ],
        model=setting.model,
        tools=[llm.Tool("add", "Add.", {"type": "object", "properties": {"first": {"type": "integer"}}})],
    )

    assert (call.name, call.arguments) == ("add", {"first": 3, "second": 4})
    assert (answered.text, answered.tool_calls) == ("It is 7.", ())
    assert '"7"' in json.dumps(setting.body)
    forced = json.dumps(setting.server.requests[0].body)
    assert {"google": '"ANY"', "openai": '"required"', "anthropic": '"any"'}[setting.provider] in forced
    assert "Add two numbers." in forced


def test_sampling_stop_and_effort_reach_the_provider(setting: Setting) -> None:
    options: dict[str, Any] = {"temperature": 0.25, "stop": ["END"], "max_output_tokens": 64}
    if setting.provider != "anthropic":
        options["seed"] = 7
    llm.generate("hi", model=setting.model, **options)
    body = setting.body
    settings = body.get("generationConfig", body)

    assert settings["temperature"] == 0.25
    assert {"google": "stopSequences", "openai": "stop", "anthropic": "stop_sequences"}[setting.provider] in settings
    assert ("seed" in settings) == (setting.provider != "anthropic")


@pytest.mark.parametrize(
    ("provider", "model", "sign"),
    [
        ("google", "google:gemini-2.5-flash", "thinkingConfig"),
        ("openai", "openai:gpt-5.1", '"reasoning_effort": "low"'),
        ("anthropic", "anthropic:claude-sonnet-4-6", '"thinking"'),
    ],
)
def test_reasoning_effort_reaches_the_provider(setting: Setting, provider: str, model: str, sign: str) -> None:
    if provider != setting.provider:
        pytest.skip("another family's")
    llm.generate("hi", model=model, reasoning_effort="low", max_output_tokens=4096)

    assert sign in json.dumps(setting.body)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("anthropic:claude-sonnet-4-6", {"seed": 1}, "does not take seed"),
        ("anthropic:claude-sonnet-4-6", {"seed": 0}, "does not take seed"),
        ("openai:gpt-5", {"temperature": 0}, "does not take temperature: it reasons"),
        ("openai:gpt-5", {"temperature": 0.5}, "does not take temperature: it reasons"),
        ("openai:gpt-4o-mini", {"reasoning_effort": "high"}, "does not take reasoning_effort: it does not reason"),
        ("anthropic:claude-opus-4-7", {"temperature": 0.5}, "does not take temperature"),
        ("cli:claude", {"temperature": 0.5}, "does not take temperature: a coding CLI decides that itself"),
        ("google:gemini-2.5-flash", {"temperature": 3}, "temperature is 3: give a number from 0 to 2"),
        ("google:gemini-2.5-flash", {"tool_choice": "add"}, "there are no tools"),
        ("google:gemini-2.5-flash", {"tools": [add], "tool_choice": "ad"}, "Did you mean add?"),
        ("google:gemini-2.5-flash", {"tools": [add, add]}, "Two tools have the name 'add'"),
        ("google:gemini-2.5-flash", {"tools": [add], "output_type": Verdict}, "cannot be combined"),
        ("google:gemini-2.5-flash", {"native_output": True}, "give output_type as well"),
    ],
)
def test_what_a_model_does_not_take_is_an_error_before_the_call(
    model: str, options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RecordingBroker({"alpha": "x"})
    llm.set_broker(broker)
    with pytest.raises(UsageError, match=words):
        llm.generate("hi", model=model, **options)
    llm.set_broker(None)

    assert broker.acquired == []


def test_a_picture_by_address_is_fetched_by_the_provider_or_is_the_requests_fault(setting: Setting) -> None:
    """Gemini's SDK fetches it here, and not from this machine: that is no failure of the provider's."""
    asked = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/a.png"}}]}]
    if setting.provider != "google":
        llm.generate(asked, model=setting.model)
        assert "http://127.0.0.1:9/a.png" in json.dumps(setting.body)
        return
    with pytest.raises(llm.ModelRequestError, match=r"cannot be sent: .*127\.0\.0\.1"):
        llm.generate(asked, model=setting.model)
    assert not setting.server.requests


def test_images_are_sent(setting: Setting, tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PIXEL)
    packed = base64.b64encode(PIXEL).decode()
    llm.generate([{"role": "user", "content": ["What is this?", llm.Image.from_file(picture)]}], model=setting.model)
    by_object = json.dumps(setting.body)
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{packed}"}}
    llm.generate([{"role": "user", "content": [{"type": "text", "text": "And this?"}, part]}], model=setting.model)

    for body in (by_object, json.dumps(setting.body)):
        assert packed.rstrip("=")[:40] in body
        assert "image/png" in body


def test_native_structured_output_is_asked_for_without_a_tool(setting: Setting) -> None:
    if setting.provider == "anthropic":
        setting.model = "anthropic:claude-sonnet-4-6"
    setting.server.script("alpha", Step(text='{"approved": true, "comments": []}'))
    reply = llm.generate("Judge it", model=setting.model, output_type=Verdict, native_output=True)

    assert reply.output == Verdict(approved=True, comments=[])
    assert "tools" not in setting.body
    assert "approved" in json.dumps(setting.body)


def test_a_stream_comes_in_pieces_and_ends_with_the_reply(setting: Setting) -> None:
    stream = llm.stream("Say hello to the world", model=setting.model)
    pieces = list(stream)

    async def read() -> tuple[list[str], llm.Reply[None]]:
        other = llm.astream("Say hello to the world", model=setting.model)
        return [piece async for piece in other], other.reply

    async_pieces, async_reply = asyncio.run(read())
    assert len(pieces) == len(async_pieces) == 3
    assert "".join(pieces) == stream.reply.text == async_reply.text == "Say hello to the world"
    assert stream.reply.usage.output_tokens > 0
    assert [type(evidence) for evidence in setting.broker.evidence] == [Succeeded, Succeeded]


def test_a_stream_is_tried_again_before_its_first_piece_and_never_after(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="overloaded"))
    assert "".join(llm.stream("one", model=setting.model)) == "one"
    setting.server.script("alpha", Step(kind="cut"))
    cut = llm.stream("a long enough answer to be cut in its middle " * 20, model=setting.model)
    pieces = iter(cut)
    first = next(pieces)
    with pytest.raises(llm.ProviderUnavailableError, match="in the middle of its answer"):
        list(pieces)

    assert first.startswith("a long enough answer")
    assert [type(evidence) for evidence in setting.broker.evidence] == [Overloaded, Succeeded, TransportFailed]


def test_leaving_a_stream_returns_its_key(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="hang"))
    stream = llm.stream("hi", model=setting.model)
    stream.close()
    with pytest.raises(llm.CallCancelledError):
        list(stream)

    assert setting.broker.evidence in ([Abandoned()], [])


def test_a_fallback_answers_when_a_model_cannot(setting: Setting) -> None:
    other = next(model for name, model in MODELS.items() if name != setting.provider)
    setting.server.script("alpha", Step(kind="fail", fail="overloaded", times=6))
    reply = llm.generate("hi", model=setting.model, fallback=[other])
    setting.server.script("alpha", Step(kind="fail", fail="bad_request"))
    with pytest.raises(llm.ModelRequestError):
        llm.generate("hi", model=setting.model, fallback=[other])

    assert (reply.text, reply.model) == ("hi", other)
    with pytest.raises(UsageError, match="Unknown model"):
        llm.generate("hi", model=setting.model, fallback=["gogle:x"])


def test_offline_and_recorded_models_take_the_same_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_RECORD_DIR", str(tmp_path))
    monkeypatch.setenv("AGENTOS_RECORDED_DIR", str(tmp_path))
    llm.set_call_context(workflow="w", item="i", node="n", calls_before=0)
    live = llm.generate(
        [{"role": "user", "content": ["Look", llm.Image(data=PIXEL, media_type="image/png")]}],
        model="offline",
        tools=[add],
        tool_choice="add",
        temperature=0.0,
        fallback=["recorded"],
    )
    monkeypatch.delenv("AGENTOS_RECORD_DIR")
    llm.set_call_context(workflow="w", item="i", node="n", calls_before=0)
    replayed = llm.generate("Look", model="recorded", tools=[add])
    pieces = list(llm.stream("Hello", model="offline"))

    assert [call.name for call in live.tool_calls] == ["add"]
    assert replayed.tool_calls == live.tool_calls
    assert "".join(pieces).startswith("Offline answer ")
    assert "base64" not in (tmp_path / "w" / "i" / "n.1.json").read_text()


def test_a_call_that_fails_everywhere_raises_the_last_ones_error(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="invalid_key", times=-1))
    with pytest.raises(AgentosError, match="No usable key"):
        llm.generate("hi", model=setting.model, fallback=[MODELS["google"]])
