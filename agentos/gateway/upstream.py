"""The way to the providers: puts the leased key on the wire, follows no redirect, hands back what comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from agentos.environment import environment
from agentos.gateway.dialect import Headers
from agentos.gateway.routing import Call
from agentos.keys.faults import simulates_429
from agentos.keys.leases import Lease
from agentos.llm.proxies import DIRECT, address_of
from agentos.llm.settings import endpoint
from agentos.llm.tls import bundle_context
from agentos.providers.registry import providers

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 600.0
"""Models may think for minutes before the first word."""
_OF_ONE_CONNECTION = {
    *("connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "transfer-encoding"),
    *("host", "content-length", "expect", "proxy-authenticate", "proxy-authorization"),
}
"""Headers that are about the connection and not about the request or reply."""


def passed_on(headers: Headers) -> Headers:
    """Those that concern the other side."""
    named = {word.strip().lower() for name, value in headers if name == "connection" for word in value.split(",")}
    return [(name, value) for name, value in headers if name not in _OF_ONE_CONNECTION | named]


def _readable(headers: Headers) -> Headers:
    """A packing that we can count in: gzip if the client takes it, else none."""
    accepted = ",".join(value for name, value in headers if name == "accept-encoding")
    encoding = "gzip" if "gzip" in accepted else "identity"
    return [*(pair for pair in headers if pair[0] != "accept-encoding"), ("accept-encoding", encoding)]


class Upstream:
    """Connections to providers, kept for the next call."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=60.0)
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            limits=limits,
            verify=bundle_context() or httpx.create_ssl_context(),
            follow_redirects=False,
            mounts=DIRECT,
        )
        self._may_simulate = simulates_429(environment())

    @asynccontextmanager
    async def sent(self, method: str, call: Call, headers: Headers, lease: Lease) -> AsyncIterator[httpx.Response]:
        """The reply as it begins to come. Raises httpx.HTTPError."""
        if self._may_simulate:
            self._may_simulate = False
            yield _simulated(call.provider)
            return
        keyed = call.dialect.with_key(_readable(passed_on(headers)), lease.secret)
        request = httpx.Request(method, self.url(call), headers=_raw(keyed), content=call.body or None)
        response = await self._http.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def passed(self, method: str, url: str, headers: Headers, body: bytes) -> AsyncIterator[httpx.Response]:
        """The reply as it begins to come, however long that takes: the caller has a limit of its own."""
        extensions = {"timeout": httpx.Timeout(None, connect=_CONNECT_SECONDS).as_dict()}
        request = httpx.Request(method, url, headers=_raw(headers), content=body or None, extensions=extensions)
        response = await self._http.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def url(self, call: Call) -> str:
        base = endpoint(call.provider).base_url or call.dialect.base_url
        query = f"?{call.query}" if call.query else ""
        return base.rstrip("/") + call.dialect.upstream_path(call.path) + query

    def address(self, call: Call) -> str:
        return address_of(self.url(call))

    async def close(self) -> None:
        await self._http.aclose()


def _simulated(provider: str) -> httpx.Response:
    """AGENTOS_SIMULATE_429: the first call meets a limit that never left the machine."""
    headers, content = providers()[provider].sample_rate_limit.encoded()
    return httpx.Response(429, headers=headers, stream=httpx.ByteStream(content))


def lowered(headers: httpx.Headers) -> Headers:
    """Whatever bytes are in them: each is a character."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers.raw]


def _raw(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
