"""Replies that begin well and are no answer: what providers, gateways and networks send with a status of 200."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agentos.providers.evidence import Evidence, Overloaded, QuotaSpent, RateLimited, Rejected, TransportFailed
from agentos.testing.provider_formats import Provider

EVENT_STREAM = {"content-type": "text/event-stream"}
BOMB_BYTES = 300 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A body of status 200 that must not be taken for an answer, and what a client should make of it."""

    name: str
    body: Any
    """Text and bytes are sent as they are, everything else as JSON."""
    means: type[Evidence] = TransportFailed
    headers: Mapping[str, str] = field(default_factory=dict)


def garbage(provider: Provider) -> list[Garbage]:
    return [*_ANY, *_OWN[provider]]


@cache
def bomb() -> bytes:
    """A small reply that unpacks to `BOMB_BYTES`."""
    packer, megabyte = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS), b" " * 2**20
    plain = (b'{"text": "', *(megabyte for _ in range(BOMB_BYTES // len(megabyte))), b'"}')
    return b"".join([*map(packer.compress, plain), packer.flush()])


def _error(**fields: Any) -> dict[str, Any]:
    return {"error": fields}


def _stream(*events: Mapping[str, Any]) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


_ANY = (
    Garbage(name="an empty object", body="{}"),
    Garbage(name="null", body="null"),
    Garbage(name="nothing", body=""),
    Garbage(name="a page", body="<html><body>Please sign in to the network</body></html>"),
    Garbage(name="half of a document", body='{"candidates": [{"content":'),
    Garbage(name="a list", body="[]"),
    Garbage(name="an error as text", body={"error": "something went wrong"}),
    Garbage(name="an error without a code", body=_error(message="something went wrong")),
    Garbage(name="an error that is a throttle", body=_error(code=429, message="slow down"), means=RateLimited),
    Garbage(name="an error that is an overload", body=_error(code=502, message="upstream"), means=Overloaded),
    Garbage(name="an error that is the key's", body=_error(code=401, message="no"), means=Rejected),
    Garbage(name="an error that is money", body=_error(code=402, message="credits"), means=QuotaSpent),
)

_CUT_MESSAGE = {"role": "assistant", "content": "The first half of"}
_MESSAGE_START = {
    "type": "message_start",
    "message": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}
_TEXT_START = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
_TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The first half of"}}

_OWN: dict[Provider, tuple[Garbage, ...]] = {
    "google": (
        Garbage(name="no candidates", body={"candidates": [], "usageMetadata": {"promptTokenCount": 1}}),
        Garbage(
            name="a candidate that has not stopped",
            body={"candidates": [{"content": {"role": "model", "parts": [{"text": "The first half of"}]}}]},
        ),
    ),
    "openai": (
        Garbage(name="no choices", body={"id": "x", "object": "chat.completion", "model": "m", "choices": []}),
        Garbage(
            # OpenRouter, when the model behind it fails after the reply has begun.
            name="an error in the choice",
            body={
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "error",
                        "message": _CUT_MESSAGE,
                        "error": {"code": 429, "message": "Provider returned error"},
                    }
                ],
            },
            means=RateLimited,
        ),
        Garbage(
            name="a choice that ended in an error",
            body={
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "finish_reason": "error", "message": _CUT_MESSAGE}],
            },
        ),
    ),
    "anthropic": (
        Garbage(
            name="a message that has not stopped",
            body={**_MESSAGE_START["message"], "content": [{"type": "text", "text": "The first half of"}]},  # type: ignore[dict-item]
        ),
        Garbage(
            name="a stream without its end",
            body=_stream(_MESSAGE_START, _TEXT_START, _TEXT),
            headers=EVENT_STREAM,
        ),
        Garbage(name="a stream of nothing", body="", headers=EVENT_STREAM),
    ),
}
