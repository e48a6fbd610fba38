"""Which providers the gateway sends a key to, and by whose protocol."""

from __future__ import annotations

import json

import pytest

from agentos.errors import UsageError
from agentos.gateway.routing import Policy, Received, read_call

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def received(path: str) -> Received:
    return Received("POST", path, [], BODY)


def test_a_provider_like_openai_is_named_before_the_path() -> None:
    call = read_call(received("/groq/v1/chat/completions"), Policy())
    assert (call.provider, call.path) == ("groq", "/v1/chat/completions")


@pytest.mark.parametrize("provider", ["azure", "vertex"])
def test_a_provider_of_another_protocol_is_refused_before_a_key_is_leased(provider: str) -> None:
    with pytest.raises(UsageError, match=f"does not speak the protocol of {provider}"):
        read_call(received(f"/{provider}/v1/chat/completions"), Policy())
