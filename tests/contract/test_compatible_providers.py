"""Providers beside the three: the real SDKs over real HTTP to the provider server, in each one's own form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos import llm
from agentos.errors import NoUsableKeyError, UsageError
from agentos.providers.evidence import LearnedLimit, RateLimited, Succeeded
from agentos.providers.registry import Declared, declare, known_providers
from agentos.testing.provider_server import Key, ProviderServer, Step
from fakes.recording_broker import RecordingBroker

SECRET = "SENTINEL-alpha-Zq81+/kd"
OTHERS = [name for name in known_providers() if name not in ("google", "anthropic", "openai")]
MODELS = {"openrouter": "openrouter:openai/gpt-4.1-nano", "vertex": "vertex:gemini-2.5-flash"}


@pytest.fixture
def broker() -> Iterator[RecordingBroker]:
    recording = RecordingBroker({"alpha": SECRET})
    llm.set_broker(recording)
    yield recording
    llm.set_broker(None)
    llm.close()
    declare({})


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(keys=[Key(name="alpha", secret=SECRET)], accepts_unknown_keys=False) as running:
        yield running


def point(name: str, server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AGENTOS_PROVIDERS__{name.upper()}__BASE_URL", server.base_url(name))


@pytest.mark.parametrize("name", OTHERS)
def test_it_is_called_with_its_key_and_a_limit_is_waited_out(
    name: str, server: ProviderServer, broker: RecordingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(name, server, monkeypatch)
    model = MODELS.get(name, f"{name}:some-model")
    reply = llm.generate("Hello", model=model, system="Be brief.", max_output_tokens=77)
    server.script("alpha", Step(kind="rate_limit", retry_after_seconds=3))
    with pytest.raises(NoUsableKeyError):
        llm.generate("Hello", model=model)

    assert (reply.text, reply.model) == ("Hello", model)
    assert [seen.key_name for seen in server.requests] == ["alpha", "alpha"]
    answered, refused = broker.evidence
    assert isinstance(answered, Succeeded)
    assert isinstance(refused, RateLimited)
    assert refused.retry_after_seconds is not None


def test_azure_is_asked_for_a_deployment_with_a_version_and_a_header_of_its_own(
    server: ProviderServer, broker: RecordingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    point("azure", server, monkeypatch)
    declare({"azure": Declared(kind="azure", api_version="2026-01-01")})
    llm.generate("Hello", model="azure:our-deployment")

    (seen,) = server.requests
    assert seen.path == "/openai/deployments/our-deployment/chat/completions?api-version=2026-01-01"
    assert "authorization" not in seen.headers


@pytest.mark.parametrize(
    ("name", "headers", "limits"),
    [
        (
            "groq",
            {"x-ratelimit-limit-requests": "14400", "x-ratelimit-limit-tokens": "6000"},
            (
                LearnedLimit(what="requests", value=14400, window_seconds=86400.0),
                LearnedLimit(what="tokens", value=6000, window_seconds=60.0),
            ),
        ),
        (
            "mistral",
            {"x-ratelimit-limit-req-minute": "720", "x-ratelimit-remaining-req-minute": "717"},
            (LearnedLimit(what="requests", value=720, window_seconds=60.0, remaining=717),),
        ),
        (
            "together",
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "9", "x-ratelimit-reset": "1"},
            (LearnedLimit(what="requests", value=10, window_seconds=1.0, remaining=9, resets_in_seconds=1.0),),
        ),
        ("deepseek", {"x-ratelimit-limit-requests": "5"}, ()),
    ],
)
def test_limits_are_read_in_the_providers_own_form(
    name: str,
    headers: dict[str, str],
    limits: tuple[LearnedLimit, ...],
    server: ProviderServer,
    broker: RecordingBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point(name, server, monkeypatch)
    server.script("alpha", Step(kind="status", status=429, headers=headers, body={"error": {"message": "slow"}}))
    with pytest.raises(NoUsableKeyError):
        llm.generate("Hello", model=f"{name}:some-model")

    assert broker.evidence == [RateLimited(limits=limits)]


def test_a_server_that_needs_no_key_is_sent_none(broker: RecordingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    llm.set_broker(RecordingBroker({"no-key": ""}))
    with ProviderServer() as server:
        point("ollama", server, monkeypatch)
        assert llm.generate("Hello", model="ollama:qwen3").text == "Hello"

    (seen,) = server.requests
    assert not {"authorization", "api-key", "x-api-key"} & seen.headers.keys()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("azure:dep", r"No address for azure calls: export AGENTOS_PROVIDERS__AZURE__BASE_URL=https://"),
        ("openrouter:nano", "openrouter:nano cannot be called"),
        ("grok:x", "Did you mean groq?"),
    ],
)
def test_what_cannot_be_called_is_an_error_before_a_key_is_asked_for(
    model: str, words: str, broker: RecordingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        llm.generate("Hello", model=model)

    assert broker.acquired == []


def test_a_provider_is_declared_by_variables_alone(
    server: ProviderServer, broker: RecordingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    point("acme", server, monkeypatch)
    monkeypatch.setenv("AGENTOS_PROVIDERS__ACME__KIND", "openai")

    assert llm.generate("Hello", model="acme:large").text == "Hello"
