"""Which providers the gateway sends a key to, and by whose protocol."""

from __future__ import annotations

import json

import pytest

from agentos.errors import UsageError
from agentos.gateway.routing import Policy, Received, read_call

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def received(path: str, method: str = "POST", body: bytes = BODY) -> Received:
    return Received(method, path, [], body)


def test_a_provider_like_openai_is_named_before_the_path() -> None:
    call = read_call(received("/groq/v1/chat/completions"), Policy())
    assert (call.provider, call.path) == ("groq", "/v1/chat/completions")


@pytest.mark.parametrize("provider", ["azure", "vertex"])
def test_a_provider_of_another_protocol_is_refused_before_a_key_is_leased(provider: str) -> None:
    with pytest.raises(UsageError, match=f"does not speak the protocol of {provider}"):
        read_call(received(f"/{provider}/v1/chat/completions"), Policy())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models/../organization/admin_api_keys"),
        ("GET", "/v1/models/%2e%2e/organization/admin_api_keys"),
        ("GET", "/v1/models/%252e%252e/organization/admin_api_keys"),
        ("DELETE", "/v1/responses/../files/file-1"),
        ("DELETE", "/v1/responses/..%2ffiles/file-1"),
        ("DELETE", "/v1/responses/..%5cfiles/file-1"),
        ("POST", "/v1/responses/./../files"),
        ("GET", "/openai/v1/models/../../v1/files"),
        ("POST", "/v1beta/models/..%2f..%2fx:generateContent"),
    ],
)
def test_no_path_leads_to_what_else_a_key_can_do(method: str, path: str) -> None:
    with pytest.raises(LookupError):
        read_call(received(path, method), Policy())


def test_models_whose_names_have_dots_and_slashes_are_found() -> None:
    for path in ("/v1/models/gpt-4.1", "/openrouter/v1/models/openai/gpt-4.1-nano"):
        assert read_call(received(path, "GET", b""), Policy()).path.endswith(path.rpartition("/")[2])


def test_a_model_that_is_named_twice_is_no_way_around_what_is_allowed() -> None:
    twice = b'{"model": "gpt-9-costly", "messages": [], "model": "gpt-5.1"}'
    with pytest.raises(UsageError, match="twice"):
        read_call(received("/v1/chat/completions", body=twice), Policy(allowed=("openai:gpt-5.1",)))


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses"])
def test_every_request_that_names_a_model_is_held_to_what_is_allowed(path: str) -> None:
    with pytest.raises(UsageError, match="not among the models"):
        read_call(received(path), Policy(allowed=("openai:gpt-5.1",)))


@pytest.mark.parametrize(
    ("path", "bound"),
    [
        ("/v1/chat/completions", "max_completion_tokens"),
        ("/v1/completions", "max_tokens"),
        ("/v1/responses", "max_output_tokens"),
        ("/mistral/v1/chat/completions", "max_tokens"),
        ("/v1/messages", "max_tokens"),
    ],
)
def test_what_a_model_writes_gets_the_bound_that_its_protocol_knows(path: str, bound: str) -> None:
    call = read_call(received(path), Policy()).bounded(8192)
    assert json.loads(call.body)[bound] == 8192
    assert read_call(received(path, body=call.body), Policy()).bounded(9).body == call.body
