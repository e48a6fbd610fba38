"""One call to each provider that never leaves the process: SDKs build most of themselves during their first call.

A fork server rehearses before it forks, so that no worker pays for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx2

from agentos.llm.structured import OutputSchema
from agentos.llm.types import Message, ModelName, Request

_MODELS = {"google": "gemini-2.5-flash", "openai": "gpt-4o-mini", "anthropic": "claude-sonnet-4-6"}

_GOOGLE_REPLY = {
    "candidates": [{"content": {"parts": [{"text": "ok"}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}
_OPENAI_REPLY = {
    "id": "rehearsal",
    "object": "chat.completion",
    "created": 0,
    "model": _MODELS["openai"],
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_ANTHROPIC_MESSAGE: dict[str, Any] = {
    "id": "rehearsal",
    "type": "message",
    "role": "assistant",
    "model": _MODELS["anthropic"],
    "content": [],
    "stop_reason": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_ANTHROPIC_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": _ANTHROPIC_MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


def rehearse(provider: str, ask: Callable[[Request, OutputSchema, httpx2.AsyncClient], Any]) -> None:
    """Run `ask` against canned answers of `provider`, on an event loop that is gone afterwards."""
    asyncio.run(_rehearse(provider, ask))


async def _rehearse(provider: str, ask: Callable[[Request, OutputSchema, httpx2.AsyncClient], Any]) -> None:
    request = Request(
        model=ModelName(provider, _MODELS[provider]), messages=(Message("user", "rehearsal"),), system="rehearsal"
    )
    # What the SDKs' sockets run on loads itself when it is first used.
    await anyio.sleep(0)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(_answer), timeout=30, verify=False) as client:
        await ask(request, OutputSchema(list[str]), client)


def _answer(request: httpx2.Request) -> httpx2.Response:
    if request.url.path.endswith("/messages"):
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _ANTHROPIC_EVENTS)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=lines.encode())
    reply = _OPENAI_REPLY if request.url.path.endswith("/completions") else _GOOGLE_REPLY
    return httpx2.Response(200, json=reply)
