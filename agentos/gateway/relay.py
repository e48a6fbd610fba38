"""One request through the gateway: a lease, the provider's reply passed on as it comes, and every retry before it.

Until the first byte has gone to the client, a limit, a rejected key or a lost connection is tried elsewhere or
waits. After it nothing is: the client has seen the beginning of one answer.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass, replace

import httpx

from agentos.errors import AgentosError, ExitCode, NoOtherKeyError
from agentos.gateway.connection import NO_RETRY, ClientReply
from agentos.gateway.dialect import Headers, encoded, sent_text, without
from agentos.gateway.leases import Leases
from agentos.gateway.masking import masked_headers, plain_pieces
from agentos.gateway.packing import PackingError, unpacked
from agentos.gateway.replies import ReplyWatch, is_stream
from agentos.gateway.routing import Call, Received
from agentos.gateway.upstream import Upstream, lowered, passed_on
from agentos.keys.leases import Ask, Lease
from agentos.keys.redaction import StreamRedactor, redactor_of
from agentos.llm import pricing
from agentos.llm.attempts import USUAL_OUTPUT_TOKENS, retry_policy
from agentos.llm.connection_errors import connection_problem, may_have_arrived
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
from agentos.providers.replies import message_of
from agentos.text.words import one_line

MOST_REPLY_BYTES = 64 * 1024 * 1024
"""Of a reply that is read before it is passed on. Streams have no end that matters."""
MOST_ERROR_BYTES = 1024 * 1024
_MOST_OF_A_KEY = 16 * 1024
MOST_HELD_BYTES = 64 * 1024
"""Of a stream until its first event is whole: it may be an error, whose call can still be tried again."""
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

    async def give(self, answer: ClientReply, *more: tuple[str, str]) -> None:
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

    async def serve(self, owner: str, received: Received, call: Call, answer: ClientReply) -> None:
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

    async def _give_up(self, call: Call, attempt: Attempt, attempts: int, answer: ClientReply) -> None:
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

    async def _attempt(
        self, owner: str, received: Received, call: Call, lease: Lease, answer: ClientReply
    ) -> Attempt:
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
            is_sent = may_have_arrived(error)
            failure = TransportFailed(reason="no answer in time", may_be_charged=is_sent)
            attempt = exchange.failed(failure, timed_out=is_sent)
        except PackingError as error:
            attempt = exchange.failed(TransportFailed(reason=str(error), may_be_charged=True))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = connection_problem(error, self._upstream.url(call)) or "the connection was lost"
            is_sent = exchange.has_status or may_have_arrived(error)
            attempt = exchange.failed(TransportFailed(reason=reason, may_be_charged=is_sent))
        finally:
            shown = exchange.passed_on_so_far() or attempt.evidence
            assert shown is not None
            self._leases.release(owner, lease, shown)
        return attempt


class _Exchange:
    """The reply to one try, on its way to the client."""

    def __init__(self, call: Call, lease: Lease, answer: ClientReply) -> None:
        self._call = call
        self._redactor = redactor_of(lease.secret)
        self._answer = answer
        self._watch: ReplyWatch | None = None
        self._headers: Headers = []
        self._has_begun = False
        self.has_status = False

    async def receive(self, response: httpx.Response) -> Attempt:
        self.has_status = True
        # Providers quote what they were sent.
        self._headers = masked_headers(lowered(response.headers), self._redactor)
        if response.status_code >= 300:
            return await self._refused(response)
        if is_stream(self._call, dict(self._headers)):
            # Passed on unpacked: a key would be hidden from us as well.
            self._headers = without(self._headers, "content-encoding")
        self._watch = ReplyWatch(self._call, dict(self._headers))
        if self._watch.is_stream:
            return await self._stream(response)
        body = await _read(response, MOST_REPLY_BYTES + 1)
        plain = unpacked(body, response.headers.get("content-encoding", ""), MOST_REPLY_BYTES + 1)
        if max(len(body), len(plain)) > MOST_REPLY_BYTES:
            return self.failed(TransportFailed(reason=f"an answer of more than {MOST_REPLY_BYTES >> 20} MB"))
        self._watch.feed(plain)
        self._watch.finish()
        fault = self._watch.fault(time.time())
        if fault is not None:
            return self.failed(_charged(fault))
        return Attempt(self._whole(response, body, plain), self._succeeded(self._watch))

    def _whole(self, response: httpx.Response, body: bytes, plain: bytes) -> WholeReply:
        """As it came, unless it quotes the key."""
        masked = self._redactor.redact(plain)
        if masked == plain:
            return WholeReply(response.status_code, self._headers, body)
        return WholeReply(response.status_code, without(self._headers, "content-encoding"), masked)

    async def _stream(self, response: httpx.Response) -> Attempt:
        watch, masked = self._watch, StreamRedactor(self._redactor)
        assert watch is not None
        held = b""
        async for piece in plain_pieces(response):
            watch.feed(piece)
            held += masked.feed(piece)
            if not self._has_begun:
                fault = watch.early_fault(time.time())
                if fault is not None:
                    return self.failed(_charged(fault))
                if not watch.has_begun and len(held) < MOST_HELD_BYTES:
                    continue
                await self._begin(response)
            if held:
                await self._answer.write(held)
                held = b""
        watch.finish()
        held += masked.flush()
        if not self._has_begun:
            fault = watch.fault(time.time())
            if fault is not None or not held:
                return self.failed(_charged(fault or TransportFailed(reason="an empty answer")))
            await self._begin(response)
        if held:
            await self._answer.write(held)
        if watch.is_cut_off:
            # Some clients take what they have for the whole answer if it ends well.
            self._answer.cut_off()
        else:
            await self._answer.finish()
        return Attempt()

    async def _begin(self, response: httpx.Response) -> None:
        self._has_begun = True
        await self._answer.start(response.status_code, passed_on(self._headers))

    async def _refused(self, response: httpx.Response) -> Attempt:
        body = self._redactor.redact(await _read_error(response))[:MOST_ERROR_BYTES]
        evidence = classify(self._call.provider, response.status_code, dict(self._headers), body, now=time.time())
        if isinstance(evidence, QuotaSpent):
            evidence = replace(evidence, words=one_line(message_of(body), 300).rstrip("."))
        headers = without(self._headers, "content-encoding")
        return Attempt(WholeReply(response.status_code, headers, body), evidence)

    def failed(self, evidence: Evidence, *, timed_out: bool = False) -> Attempt:
        """Without a reply that is worth passing on. What has begun is cut off, so that the client sees it."""
        if self._has_begun:
            self._answer.cut_off()
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


async def _read_error(response: httpx.Response) -> bytes:
    """Empty where it cannot be looked through: its status still tells.

    A little more than is bearable: a key at the very end has to be there as a whole to be masked.
    """
    most_bytes = MOST_ERROR_BYTES + _MOST_OF_A_KEY
    packed = await _read(response, most_bytes)
    try:
        return unpacked(packed, response.headers.get("content-encoding", ""), most_bytes)
    except PackingError:
        return b""
