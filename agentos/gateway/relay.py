"""One request through the gateway: a lease, the provider's reply passed on as it comes, and every retry before it.

Until the first byte has gone to the client, a limit, a rejected key or a lost connection is tried elsewhere or
waits. After it nothing is: the client has seen the beginning of one answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from dataclasses import dataclass, replace

import httpx

from agentos.errors import AgentosError, ExitCode, NoOtherKeyError
from agentos.gateway.connection import NO_RETRY, Answer
from agentos.gateway.dialect import Headers, encoded, sent_text
from agentos.gateway.leases import Leases
from agentos.gateway.replies import ReplyWatch, Unpacker
from agentos.gateway.routing import Call, Received
from agentos.gateway.upstream import Upstream, lowered, passed_on
from agentos.keys.leases import Ask, Lease
from agentos.llm import pricing
from agentos.llm.attempts import USUAL_OUTPUT_TOKENS, retry_policy
from agentos.llm.connection_errors import connection_problem
from agentos.llm.retries import Failures, GiveUp, TryAgain, after_failure
from agentos.llm.types import Attempted
from agentos.providers.classify import classify, limits_from_headers
from agentos.providers.evidence import (
    Evidence,
    NotServed,
    QuotaSpent,
    RequestFailed,
    Succeeded,
    TransportFailed,
    Usage,
)
from agentos.providers.model_name import ModelName
from agentos.text.words import one_line

MOST_REPLY_BYTES = 64 * 1024 * 1024
"""Of a reply that is read before it is passed on. Streams have no end that matters."""
MOST_ERROR_BYTES = 1024 * 1024
STATUS_OF = {
    ExitCode.NO_USABLE_KEY: 401,
    ExitCode.BUDGET_REACHED: 402,
    ExitCode.QUOTA_GONE: 429,
    ExitCode.USAGE: 400,
}
"""How a client is told of what no retry would change; all else is 502."""

_calls = itertools.count(1)


@dataclass(frozen=True, slots=True)
class WholeReply:
    """A reply that is there to its end."""

    status: int
    headers: Headers
    body: bytes

    async def give(self, answer: Answer, *more: tuple[str, str]) -> None:
        headers = [pair for pair in passed_on(self.headers) if pair[0] != NO_RETRY[0] or not more]
        await answer.whole(self.status, [*headers, *more], self.body)


def own_reply(call: Call, status: int, message: str) -> WholeReply:
    """An error of ours in the words of the client's protocol."""
    return WholeReply(
        status, [("content-type", "application/json"), NO_RETRY], encoded(call.dialect.error(status, message))
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one try at the provider came to. With neither reply nor evidence it has been passed on already."""

    reply: WholeReply | None = None
    evidence: Evidence | None = None
    timed_out: bool = False

    @property
    def failure(self) -> Attempted | None:
        if self.evidence is None or isinstance(self.evidence, Succeeded):
            return None
        return Attempted(evidence=self.evidence, timed_out=self.timed_out)


class Relay:
    def __init__(self, leases: Leases, upstream: Upstream) -> None:
        self._leases = leases
        self._upstream = upstream

    async def serve(self, owner: str, received: Received, call: Call, answer: Answer) -> None:
        """Answer the client, whatever it takes. Cancelled when the client is gone: so is the call then."""
        failures, unserved = Failures(), own_reply(call, 404, "No key serves this.")
        ask = self._ask(call)
        while True:
            try:
                lease = await self._leases.acquire(owner, ask)
            except NoOtherKeyError:
                return await unserved.give(answer)
            except AgentosError as error:
                status = STATUS_OF.get(error.exit_code, 502)
                return await own_reply(call, status, str(error)).give(answer)
            attempt = await self._attempt(owner, received, call, lease, answer)
            failed = attempt.failure
            if failed is None:
                return await attempt.reply.give(answer) if attempt.reply else None
            if isinstance(failed.evidence, NotServed) and attempt.reply:
                unserved, ask = attempt.reply, replace(ask, refused_by=(*ask.refused_by, lease.key_name))
            match after_failure(failed, failures, retry_policy, random.random()):
                case TryAgain(delay_seconds=delay_seconds, failures=failures):
                    await asyncio.sleep(delay_seconds)
                case GiveUp(attempts=attempts):
                    return await self._give_up(call, attempt, attempts, answer)

    async def _give_up(self, call: Call, attempt: Attempt, attempts: int, answer: Answer) -> None:
        """With the provider's own words where it has said something."""
        if isinstance(attempt.evidence, RequestFailed) and attempt.reply:
            await attempt.reply.give(answer)
        elif attempt.reply and attempt.reply.status >= 400:
            await attempt.reply.give(answer, NO_RETRY)
        else:
            reason = getattr(attempt.evidence, "reason", "") or "the connection failed"
            where = f"{call.provider}:{call.endpoint.model} at {self._upstream.address(call)}"
            await own_reply(call, 502, f"{where} gave no answer: {reason} ({attempts} attempts).").give(answer)

    def _ask(self, call: Call) -> Ask:
        text = sent_text(call.document)
        output = call.dialect.most_output_tokens(call.document) or USUAL_OUTPUT_TOKENS
        is_counted = not call.endpoint.counted_as
        cost = _cost_usd(call, pricing.most_tokens(text), output if call.endpoint.writes else 0)
        return Ask(
            provider=call.provider,
            model=call.endpoint.counted_as or call.endpoint.model,
            estimated_tokens=pricing.estimate_tokens(text) if is_counted else 0,
            estimated_cost_usd=cost if is_counted else 0.0,
            most_output_tokens=output,
            call=next(_calls),
        )

    async def _attempt(self, owner: str, received: Received, call: Call, lease: Lease, answer: Answer) -> Attempt:
        """Ask once. The lease goes back whatever happens, also when the client is gone."""
        # Until something comes back nobody knows whether the provider counts it.
        attempt = Attempt(evidence=TransportFailed(reason="the client went away", may_be_charged=True))
        if lease.most_output_tokens is not None:
            call = call.bounded(lease.most_output_tokens)
        exchange = _Exchange(call, lease, answer)
        try:
            async with self._upstream.sent(received.method, call, received.headers, lease) as response:
                attempt = await exchange.receive(response)
        except httpx.TimeoutException as error:
            is_sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            failure = TransportFailed(reason="no answer in time", may_be_charged=is_sent)
            attempt = exchange.failed(failure, timed_out=is_sent)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = connection_problem(error, self._upstream.address(call)) or "the connection was lost"
            attempt = exchange.failed(TransportFailed(reason=reason, may_be_charged=exchange.has_status))
        finally:
            shown = exchange.passed_on_so_far() or attempt.evidence
            assert shown is not None
            self._leases.release(owner, lease, shown)
        return attempt


class _Exchange:
    """The reply to one try, on its way to the client."""

    def __init__(self, call: Call, lease: Lease, answer: Answer) -> None:
        self._call = call
        self._lease = lease
        self._answer = answer
        self._watch: ReplyWatch | None = None
        self._headers: Headers = []
        self._has_begun = False
        self.has_status = False

    async def receive(self, response: httpx.Response) -> Attempt:
        self.has_status = True
        self._headers = lowered(response.headers)
        if response.status_code >= 300:
            return await self._refused(response)
        self._watch = ReplyWatch(self._call, dict(self._headers))
        if self._watch.is_stream:
            return await self._stream(response)
        body = await _read(response, MOST_REPLY_BYTES + 1)
        if len(body) > MOST_REPLY_BYTES:
            return self.failed(TransportFailed(reason=f"an answer of more than {MOST_REPLY_BYTES >> 20} MB"))
        self._watch.feed(body)
        self._watch.finish()
        fault = self._watch.fault(time.time())
        if fault is not None:
            return self.failed(_charged(fault))
        return Attempt(WholeReply(response.status_code, self._headers, body), self._succeeded(self._watch))

    async def _stream(self, response: httpx.Response) -> Attempt:
        watch = self._watch
        assert watch is not None
        async for piece in response.aiter_raw():
            watch.feed(piece)
            if not self._has_begun:
                fault = watch.early_fault(time.time())
                if fault is not None:
                    return self.failed(_charged(fault))
                self._has_begun = True
                await self._answer.start(response.status_code, passed_on(self._headers))
            await self._answer.write(piece)
        watch.finish()
        if not self._has_begun:
            return self.failed(TransportFailed(reason="an empty answer", may_be_charged=True))
        await self._answer.finish()
        return Attempt()

    async def _refused(self, response: httpx.Response) -> Attempt:
        packed = await _read(response, MOST_ERROR_BYTES)
        body = Unpacker(response.headers.get("content-encoding", "")).feed(packed)
        # Providers quote what they were sent.
        body = body.replace(self._lease.secret.encode(), b"[key]") if self._lease.secret else body
        evidence = classify(self._call.provider, response.status_code, dict(self._headers), body, now=time.time())
        if isinstance(evidence, QuotaSpent):
            evidence = replace(evidence, words=one_line(_message(body), 300).rstrip("."))
        headers = [pair for pair in self._headers if pair[0] != "content-encoding"]
        return Attempt(WholeReply(response.status_code, headers, body), evidence)

    def failed(self, evidence: Evidence, *, timed_out: bool = False) -> Attempt:
        """Without a reply that is worth passing on. What has begun is cut off, so that the client sees it."""
        if self._has_begun:
            self._answer.abort()
            return Attempt()
        return Attempt(evidence=evidence, timed_out=timed_out)

    def passed_on_so_far(self) -> Evidence | None:
        """What the client has had, or a part of it, is paid for, however it ended."""
        return self._succeeded(self._watch) if self._has_begun and self._watch is not None else None

    def _succeeded(self, watch: ReplyWatch) -> Succeeded:
        input_tokens, output_tokens = watch.tokens
        if not input_tokens and self._call.endpoint.writes:
            input_tokens = pricing.estimate_tokens(sent_text(self._call.document))
        is_counted = not self._call.endpoint.counted_as
        cost = _cost_usd(self._call, input_tokens, output_tokens) if is_counted else 0.0
        limits = limits_from_headers(self._call.provider, dict(self._headers), now=time.time()) if is_counted else ()
        usage = Usage(input_tokens=input_tokens if is_counted else 0, output_tokens=output_tokens, cost_usd=cost)
        return Succeeded(usage=usage, limits=limits)


def _charged(fault: Evidence) -> Evidence:
    return replace(fault, may_be_charged=True) if isinstance(fault, TransportFailed) else fault


def _cost_usd(call: Call, input_tokens: int, output_tokens: int) -> float | None:
    try:
        return pricing.cost_usd(ModelName(call.provider, call.endpoint.model), input_tokens, output_tokens)
    except ModuleNotFoundError:
        return None  # The list of prices comes with the SDKs.


async def _read(response: httpx.Response, most_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) >= most_bytes:
            break
    return bytes(body[:most_bytes])


def _message(body: bytes) -> str:
    """The words of an error reply, for people. Nothing is decided by them."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return ""
    return message if isinstance(message, str) else ""
