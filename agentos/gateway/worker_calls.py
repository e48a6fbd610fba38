"""Calls of `generate` in a worker of the run: the key of the lease is put for its token, and all else stays as it is.

The worker owns retries and what a reply means. It sees no key: neither here nor in what a provider quotes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from agentos.gateway.connection import ClientReply
from agentos.gateway.dialect import Headers, without
from agentos.gateway.masking import masked_headers, plain_pieces
from agentos.gateway.messages import KeyGiven, KeyWanted
from agentos.gateway.packing import PackingError
from agentos.gateway.routing import DIALECTS, Received
from agentos.gateway.upstream import Upstream, lowered, passed_on
from agentos.keys.leases import Lease
from agentos.keys.redaction import StreamRedactor, redactor_of
from agentos.llm.connection_errors import connection_problem, may_have_arrived
from agentos.llm.settings import endpoint
from agentos.llm.through_gateway import FAILURE_HEADER, LEASE_HEADER, OWN_HEADERS, TARGET_HEADER, Failure

_PORTS = {"http": 80, "https": 443}


class LeasedKeys:
    """The keys of leases that workers hold, asked for one by one."""

    def __init__(self, tell: Callable[[KeyWanted], None]) -> None:
        self._tell = tell
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[KeyGiven | None]] = {}

    async def find(self, token: str) -> KeyGiven | None:
        """None when the token stands for no lease, or no longer."""
        number = next(self._numbers)
        answered: asyncio.Future[KeyGiven | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._tell(KeyWanted(number=number, token=token))
            return await answered
        finally:
            del self._waiting[number]

    def deliver(self, number: int, given: KeyGiven | None) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(given)


class WorkerCalls:
    def __init__(self, keys: LeasedKeys, upstream: Upstream) -> None:
        self._keys = keys
        self._upstream = upstream

    async def lease(self, received: Received) -> KeyGiven | None:
        """Whose call it is, with which key."""
        return await self._keys.find(received.by_name.get(LEASE_HEADER, ""))

    async def serve(self, received: Received, lease: Lease, answer: ClientReply) -> None:
        """Cancelled when the worker is gone, or gives the call up: so is the call then."""
        target = received.by_name.get(TARGET_HEADER, "")
        if _origin(target) != _origin(home_of(lease.provider)):
            where = urlsplit(home_of(lease.provider)).netloc.rpartition("@")[2]
            return await fail(
                answer, Failure(reason=f"keys of {lease.provider} are for {where} and no other address")
            )
        try:
            async with self._upstream.passed(
                received.method, target, _with_key(received, lease), received.body
            ) as reply:
                await _pass_back(reply, lease, answer)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, PackingError) as error:
            if answer.has_begun:
                return answer.cut_off()
            reason = connection_problem(error, target) or "the connection was lost"
            timed_out = isinstance(error, httpx.TimeoutException)
            await fail(answer, Failure(reason=reason, timed_out=timed_out, may_have_arrived=may_have_arrived(error)))


async def fail(answer: ClientReply, failure: Failure) -> None:
    await answer.whole(502, [("content-type", "application/json"), (FAILURE_HEADER, "1")], failure.encoded())


def home_of(provider: str) -> str:
    """Where the provider's keys belong."""
    dialect = DIALECTS.get(provider)
    return endpoint(provider).base_url or (dialect.base_url if dialect else "")


def _origin(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port; None of what has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _with_key(received: Received, lease: Lease) -> Headers:
    token = received.by_name[LEASE_HEADER]
    kept = [(name, value.replace(token, lease.secret)) for name, value in passed_on(received.headers)]
    # A packed reply could not be looked through for the key.
    return [*without(kept, *OWN_HEADERS, "accept-encoding"), ("accept-encoding", "identity")]


async def _pass_back(reply: httpx.Response, lease: Lease, answer: ClientReply) -> None:
    redactor = redactor_of(lease.secret)
    headers = without(passed_on(lowered(reply.headers)), *OWN_HEADERS, "content-encoding")
    await answer.start(reply.status_code, [*masked_headers(headers, redactor), *_length(reply)])
    masked = StreamRedactor(redactor)
    async for piece in plain_pieces(reply):
        if shown := masked.feed(piece):
            await answer.write(shown)
    if rest := masked.flush():
        await answer.write(rest)
    await answer.finish()


def _length(reply: httpx.Response) -> Headers:
    """As the provider told it: masking keeps it, unpacking does not. Without it the end is a piece of its own."""
    length = reply.headers.get("content-length")
    is_changed = "content-encoding" in reply.headers or "transfer-encoding" in reply.headers
    return [] if length is None or is_changed else [("content-length", length)]
