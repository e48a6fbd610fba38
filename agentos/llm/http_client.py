"""The HTTP boundary of model calls: puts the leased key on the wire and notes what came back.

SDK objects hold a placeholder instead of a key, so nothing they keep, log or raise can show one.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2

from agentos.environment import environment
from agentos.keys.faults import simulates_429
from agentos.llm.connection_errors import may_have_arrived
from agentos.llm.gateway_connections import GatewayConnections
from agentos.llm.proxies import DIRECT
from agentos.llm.through_gateway import LEASE_HEADER, TARGET_HEADER, Failure, is_failure
from agentos.llm.tls import bundle_context
from agentos.providers.answers import StreamWatch, answer_fault
from agentos.providers.evidence import Evidence, TransportFailed
from agentos.providers.registry import providers
from agentos.providers.replies import without_mark

PLACEHOLDER_KEY = "key-is-added-on-the-wire"
_CONNECT_SECONDS = 10.0
MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""Far above any answer, with images too. A packed body is counted as it unpacks."""
MOST_ERROR_BYTES = 1024 * 1024


@dataclass(slots=True)
class Exchange:
    """One HTTP call: the key it goes out with, and the reply's status, headers and (if an error) body."""

    provider: str
    secret: str = field(repr=False)
    through: str = ""
    """The gateway that it takes, if there is one."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    error_body: bytes = b""
    url: str = ""
    """Where it went."""
    may_have_arrived: bool = False
    """No reply came, but the request may be answered."""
    fault: Evidence | None = None
    """Why a reply with a good status is no answer, whatever the SDK made of it."""


current_exchange: ContextVar[Exchange] = ContextVar("agentos_llm_exchange")


class KeyedClient(httpx2.AsyncClient):
    """An HTTP client shared by all SDKs of a process; each request carries the key of the exchange it belongs to."""

    _may_simulate = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._gateway = GatewayConnections()

    async def aclose(self) -> None:
        self._gateway.close()
        await super().aclose()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = current_exchange.get()
        exchange.url = str(request.url)
        simulated = self._simulated_answer(exchange.provider, request)
        try:
            response = simulated or await self._sent(request, exchange, options)
            if exchange.through and is_failure(response.headers):
                await _fail(response, exchange)
            exchange.status = response.status_code
            exchange.headers = dict(response.headers)
            received = await _received(response, exchange)
        except httpx2.RequestError as error:
            exchange.may_have_arrived = may_have_arrived(error)
            error.request = request
            raise
        received.request = request
        return received

    async def _sent(self, request: httpx2.Request, exchange: Exchange, options: Mapping[str, Any]) -> httpx2.Response:
        if exchange.through:
            return await self._gateway.send(exchange.through, request, _with_token(request, exchange))
        # A redirect would carry the key to another host.
        direct = {**options, "follow_redirects": False, "stream": True}
        return await super().send(_with_key(request, exchange), **direct)

    def _simulated_answer(self, provider: str, request: httpx2.Request) -> httpx2.Response | None:
        """With AGENTOS_SIMULATE_429, the first call of a process meets a rate limit that never left the machine."""
        if not (self._may_simulate and simulates_429(environment())):
            return None
        self._may_simulate = False
        headers, content = providers()[provider].sample_rate_limit.encoded()
        return httpx2.Response(429, headers=headers, content=content, request=request)


async def _received(response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
    """The reply with its body read, or watched while it streams; never more of it than is bearable."""
    if response.status_code >= 400:
        exchange.error_body = await _read(response, MOST_ERROR_BYTES)
        return _unpacked(response, content=exchange.error_body)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return _unpacked(response, stream=_WatchedStream(response, exchange))
    body = without_mark(await _read(response, MOST_ANSWER_BYTES + 1))
    if len(body) > MOST_ANSWER_BYTES:
        exchange.fault = _too_long()
    elif response.is_success:
        exchange.fault = answer_fault(exchange.provider, exchange.headers, body, time.time())
    _refuse(exchange)
    return _unpacked(response, content=body)


async def _fail(response: httpx2.Response, exchange: Exchange) -> None:
    """The gateway has had no reply: raise what a connection of our own would have."""
    failure = Failure.read(await _read(response, MOST_ERROR_BYTES))
    exchange.fault = TransportFailed(reason=failure.reason, may_be_charged=failure.may_have_arrived)
    if failure.timed_out:
        raise httpx2.ConnectTimeout("no connection")
    raise httpx2.ConnectError("no connection")


def _refuse(exchange: Exchange) -> None:
    """No SDK is given what is no answer: each would make something else of it."""
    if exchange.fault is not None:
        raise httpx2.RemoteProtocolError("no answer")


async def _read(response: httpx2.Response, most_bytes: int) -> bytes:
    """The body, cut off at so many bytes; the connection of a longer one is closed."""
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) >= most_bytes:
                break
    finally:
        await response.aclose()
    return bytes(body[:most_bytes])


class _WatchedStream(httpx2.AsyncByteStream):
    """An event stream as it comes, whose end tells whether it was whole."""

    def __init__(self, response: httpx2.Response, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        watch = StreamWatch(self._exchange.provider, self._exchange.headers)
        size = 0
        # Until its end has come, the stream is cut off, however that shows itself.
        self._exchange.fault = watch.fault(time.time())
        async for piece in self._response.aiter_bytes():
            size += len(piece)
            if size > MOST_ANSWER_BYTES:
                self._exchange.fault = _too_long()
                break
            watch.feed(piece)
            if watch.is_over:
                self._exchange.fault = watch.fault(time.time())
            yield piece
        else:
            watch.finish()
            self._exchange.fault = watch.fault(time.time())
        _refuse(self._exchange)

    async def aclose(self) -> None:
        await self._response.aclose()


def _too_long() -> TransportFailed:
    return TransportFailed(reason=f"an answer of more than {MOST_ANSWER_BYTES // 2**20} MB")


def _unpacked(response: httpx2.Response, **content: Any) -> httpx2.Response:
    """The same reply with this content, which is no longer packed."""
    packing = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in packing]
    return httpx2.Response(response.status_code, headers=headers, extensions=response.extensions, **content)


def _with_key(request: httpx2.Request, exchange: Exchange) -> httpx2.Request:
    extensions = dict(request.extensions)
    timeouts = dict(extensions.get("timeout") or {})
    # SDKs give one number for all phases; minutes to answer must not mean minutes to connect.
    timeouts["connect"] = min(timeouts.get("connect") or _CONNECT_SECONDS, _CONNECT_SECONDS)
    extensions["timeout"] = timeouts
    headers = _keyed(request, exchange.secret)
    return httpx2.Request(request.method, request.url, headers=headers, stream=request.stream, extensions=extensions)


def _with_token(request: httpx2.Request, exchange: Exchange) -> list[tuple[str, str]]:
    """For the gateway, which puts the key for the token of the lease."""
    headers = [(name, value) for name, value in _keyed(request, exchange.secret) if name.lower() != "host"]
    return [*headers, (LEASE_HEADER, exchange.secret), (TARGET_HEADER, exchange.url)]


def _keyed(request: httpx2.Request, secret: str) -> list[tuple[str, str]]:
    return [
        (name, value.replace(PLACEHOLDER_KEY, secret))
        for name, value in request.headers.items()
        # A server that wants no key may stumble over an empty one.
        if secret or PLACEHOLDER_KEY not in value
    ]


@cache
def ssl_context() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds: once, before workers are forked."""
    return new_ssl_context()


def new_ssl_context() -> ssl.SSLContext:
    """With the certificates that the environment names, else the system's."""
    return bundle_context() or httpx2.create_ssl_context()


def new_client() -> KeyedClient:
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    return KeyedClient(
        timeout=httpx2.Timeout(600.0, connect=_CONNECT_SECONDS),
        limits=limits,
        verify=ssl_context(),
        mounts=DIRECT,
    )
