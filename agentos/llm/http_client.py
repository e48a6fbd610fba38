"""The HTTP boundary of model calls: puts the leased key on the wire and notes what came back.

SDK objects hold a placeholder instead of a key, so nothing they keep, log or raise can show one.
"""

from __future__ import annotations

import os
import ssl
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2

from agentos.keys.faults import simulates_429
from agentos.providers.registry import providers

PLACEHOLDER_KEY = "key-is-added-on-the-wire"
_CONNECT_SECONDS = 10.0


@dataclass(slots=True)
class Exchange:
    """One HTTP call: the key it goes out with, and the answer's status, headers and (if an error) body."""

    provider: str
    secret: str = field(repr=False)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    error_body: bytes = b""


current_exchange: ContextVar[Exchange] = ContextVar("agentos_llm_exchange")


class KeyedClient(httpx2.AsyncClient):
    """An HTTP client shared by all SDKs of a process; each request carries the key of the exchange it belongs to."""

    _may_simulate = True

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = current_exchange.get()
        simulated = self._simulated_answer(exchange.provider, request)
        # A redirect would carry the key to another host.
        options["follow_redirects"] = False
        try:
            response = simulated or await super().send(_with_key(request, exchange.secret), **options)
        except httpx2.RequestError as error:
            error.request = request
            raise
        response.request = request
        exchange.status = response.status_code
        exchange.headers = dict(response.headers)
        if response.status_code >= 400:
            exchange.error_body = await response.aread()
        return response

    def _simulated_answer(self, provider: str, request: httpx2.Request) -> httpx2.Response | None:
        """With AGENTOS_SIMULATE_429, the first call of a process meets a rate limit that never left the machine."""
        if not (self._may_simulate and simulates_429(os.environ)):
            return None
        self._may_simulate = False
        headers, content = providers()[provider].sample_rate_limit.encoded()
        return httpx2.Response(429, headers=headers, content=content, request=request)


def _with_key(request: httpx2.Request, secret: str) -> httpx2.Request:
    headers = [(name, value.replace(PLACEHOLDER_KEY, secret)) for name, value in request.headers.items()]
    extensions = dict(request.extensions)
    timeouts = dict(extensions.get("timeout") or {})
    # SDKs give one number for all phases; minutes to answer must not mean minutes to connect.
    timeouts["connect"] = min(timeouts.get("connect") or _CONNECT_SECONDS, _CONNECT_SECONDS)
    extensions["timeout"] = timeouts
    return httpx2.Request(request.method, request.url, headers=headers, stream=request.stream, extensions=extensions)


@cache
def ssl_context() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds: once, before workers are forked."""
    return httpx2.create_ssl_context()


def new_client() -> KeyedClient:
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    return KeyedClient(timeout=httpx2.Timeout(600.0, connect=_CONNECT_SECONDS), limits=limits, verify=ssl_context())
