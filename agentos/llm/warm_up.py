"""One call to each provider that never leaves the process: SDKs build most of themselves during their first call.

A fork server warms up before it forks, so that no worker pays for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import httpx2

from agentos.llm.structured import OutputSchema
from agentos.llm.types import Message, ModelName, Request
from agentos.providers.provider import Provider

Ask = Callable[[Request, OutputSchema, httpx2.AsyncClient], Awaitable[None]]


def warm_up(provider: Provider, ask: Ask) -> None:
    """Run `ask` against a sample answer of `provider`, on an event loop that is gone afterwards."""
    asyncio.run(_warm_up(provider, ask))


async def _warm_up(provider: Provider, ask: Ask) -> None:
    name = ModelName(provider.name, provider.default_model)
    request = Request(model=name, messages=(Message("user", "warm up"),), system="warm up")
    headers, content = provider.sample_answer.encoded()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content))
    # What the SDKs' sockets run on loads itself when it is first used.
    await anyio.sleep(0)
    async with httpx2.AsyncClient(transport=transport, timeout=30, verify=False) as client:
        await ask(request, OutputSchema(list[str]), client)
