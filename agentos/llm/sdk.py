"""One attempt at a provider through its SDK: a request and a key in, an answer or evidence out. Loads the SDK."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import httpx2
from pydantic_ai import ModelResponse, ToolCallPart
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, StreamedResponse

from agentos.keys.leases import Lease
from agentos.llm import event_loop, pricing, sdk_request
from agentos.llm.cancellation import Cancellation
from agentos.llm.connection_errors import connection_problem
from agentos.llm.conversation import Message, ToolCall
from agentos.llm.errors import missing_sdk
from agentos.llm.http_client import PLACEHOLDER_KEY, Exchange, KeyedClient, current_exchange, new_client
from agentos.llm.options import OnText, UnsupportedOptionError, refuse_unsupported
from agentos.llm.settings import base_url, endpoint
from agentos.llm.structured import OutputSchema
from agentos.llm.types import Attempted, Completion, Request
from agentos.providers.classify import classify, limits_from_headers
from agentos.providers.evidence import Evidence, RequestFailed, Succeeded, TransportFailed, Usage
from agentos.providers.model_name import ModelName, ModelNameError
from agentos.providers.provider import Endpoint, Provider
from agentos.providers.registry import providers
from agentos.providers.replies import message_of

_FILTERED = "the provider's content filter stopped it"


def send(
    request: Request,
    messages: Sequence[Message],
    schema: OutputSchema | None,
    lease: Lease,
    cancellation: Cancellation,
) -> Attempted:
    """Ask once, with no retry of any kind. Raises only when cancelled; a failure comes back as evidence."""
    _clients.may_have_connections = True
    exchange = Exchange(request.model.provider, lease.secret, lease.through)
    if lease.most_output_tokens is not None:
        request = replace(request, max_output_tokens=lease.most_output_tokens)
    return event_loop.call_loop.run(_attempt(request, messages, schema, exchange), cancellation)


async def _attempt(
    request: Request, messages: Sequence[Message], schema: OutputSchema | None, exchange: Exchange
) -> Attempted:
    current_exchange.set(exchange)
    # Building a client is our time, not the provider's.
    model = _clients.model(request.model)
    teller = _Teller(request.options.on_text)
    try:
        async with asyncio.timeout(request.timeout_seconds):
            response = await _ask(model, request, messages, schema, teller)
        return _answered(response, request, schema, exchange)
    except TimeoutError:
        reason = f"no answer in {request.timeout_seconds:g} s"
        evidence = TransportFailed(reason=reason, may_be_charged=True)
        return Attempted(evidence=evidence, timed_out=True, has_begun=teller.has_begun)
    except (AgentRunError, UserError, httpx2.HTTPError, ValueError, RecursionError) as error:
        # Returned as evidence, not raised: SDK errors hold requests and responses that must not travel further.
        return replace(_failed(error, exchange), has_begun=teller.has_begun)


class _Teller:
    """Hands on the text of an answer while it comes."""

    def __init__(self, on_text: OnText | None) -> None:
        self.on_text = on_text
        self.has_begun = False

    async def follow(self, stream: StreamedResponse) -> ModelResponse:
        async for event in stream:
            match event:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    self._tell(text)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    self._tell(text)
        return stream.get()

    def _tell(self, text: str) -> None:
        assert self.on_text is not None
        self.has_begun = True
        self.on_text(text)


async def _ask(
    model: Model, request: Request, messages: Sequence[Message], schema: OutputSchema | None, teller: _Teller
) -> ModelResponse:
    conversation = sdk_request.to_model_messages(messages, request.system, request.model)
    settings, parameters = sdk_request.model_settings(request), sdk_request.parameters(request.options, schema)
    if teller.on_text is None:
        return await model_request(model, conversation, model_settings=settings, model_request_parameters=parameters)
    async with model_request_stream(
        model, conversation, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        return await teller.follow(stream)


def check_supported(request: Request) -> None:
    """Raises UnsupportedOptionError for what the model would silently be sent without. Opens no connection."""
    model = _clients.model(request.model)
    refuse_unsupported(str(request.model), sdk_request.unsupported(model, request), request.options)
    if any(message.images for message in request.messages) and not sdk_request.takes_images(model):
        raise UnsupportedOptionError(f"{request.model} takes no images. Leave them out, or choose another model.")


def _answered(
    response: ModelResponse, request: Request, schema: OutputSchema | None, exchange: Exchange
) -> Attempted:
    name, used = request.model, response.usage
    cost_usd = pricing.cost_usd(name, used.input_tokens, used.output_tokens)
    usage = Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost_usd)
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    if response.finish_reason == "content_filter" and not calls and not response.text:
        return Attempted(evidence=RequestFailed(status=exchange.status, reason=_FILTERED))
    completion = Completion(
        text=response.text or "",
        structured=_structured(response, calls, request) if schema is not None else None,
        usage=usage,
        model=str(name),
        tool_calls=() if schema is not None else tuple(_tool_call(call) for call in calls),
        provider_state="" if schema is not None else sdk_request.state_of(response, name),
        is_truncated=response.finish_reason == "length",
    )
    limits = limits_from_headers(exchange.provider, exchange.headers, now=time.time())
    return Attempted(evidence=Succeeded(usage=usage, limits=limits), completion=completion)


def _structured(response: ModelResponse, calls: Sequence[ToolCallPart], request: Request) -> str | None:
    if request.options.native_output:
        return response.text
    return calls[0].args_as_json_str() if calls else None


def _tool_call(part: ToolCallPart) -> ToolCall:
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_dict())


def _failed(error: Exception, exchange: Exchange) -> Attempted:
    evidence = _evidence(error, exchange)
    if isinstance(evidence, TransportFailed) and (exchange.status == 200 or exchange.may_have_arrived):
        evidence = replace(evidence, may_be_charged=True)
    return Attempted(
        evidence=evidence,
        timed_out=isinstance(error, ModelTimeoutError),
        detail=message_of(exchange.error_body),
    )


def _evidence(error: Exception, exchange: Exchange) -> Evidence:
    """What an exception of the SDK means, by status, headers and body of the exchange; never by its text."""
    if exchange.status is not None and exchange.status >= 300:
        return classify(exchange.provider, exchange.status, exchange.headers, exchange.error_body, now=time.time())
    if exchange.fault is not None:
        return exchange.fault
    match error:
        case ModelHTTPError():
            # An error event inside a stream that began with 200.
            return classify(exchange.provider, error.status_code, error.headers or {}, error.body, now=time.time())
        case ModelConnectionError():
            return TransportFailed(reason=connection_problem(error, exchange.url) or _phase(error))
        case ContentFilterError():
            return RequestFailed(status=exchange.status, reason=_FILTERED)
        case ValueError() if exchange.status is None:
            # Before anything was sent: a picture, say, whose address leads nowhere and which the SDK must fetch.
            return RequestFailed(reason=f"it cannot be sent: {error}")
        case ModelAPIError() | UnexpectedModelBehavior() | ValueError():
            return TransportFailed(reason="an unreadable answer")
        case _:
            # A key cannot be in here: the SDK never had one.
            return RequestFailed(status=exchange.status, reason=f"{type(error).__name__}: {error}")


def _phase(error: ModelConnectionError) -> str:
    kind = "timed out" if isinstance(error, ModelTimeoutError) else "failed"
    return f"the connection {kind} ({error.phase})" if error.phase else f"the connection {kind}"


class _Clients:
    """SDK clients and models of this process, built once each: building some takes longer than a call."""

    def __init__(self) -> None:
        self.may_have_connections = False
        self._http: KeyedClient | None = None
        self._lock = threading.RLock()
        self._models: dict[tuple[ModelName, Endpoint], Model] = {}
        self._sdk_clients: dict[tuple[str, Endpoint], Any] = {}

    def model(self, name: ModelName) -> Model:
        provider = providers()[name.provider]
        key = (name, endpoint(name.provider))
        with self._lock:
            if key not in self._models:
                try:
                    self._models[key] = provider.build_model(name.model, self.sdk_client(provider))
                except UserError as error:
                    raise ModelNameError(f"{name} cannot be called: {error}") from None
            return self._models[key]

    def sdk_client(self, provider: Provider) -> Any:
        where = endpoint(provider.name)
        key = (provider.name, where)
        if key not in self._sdk_clients:
            self._http = self._http or new_client()
            try:
                self._sdk_clients[key] = provider.connect(PLACEHOLDER_KEY, where, self._http)
            except ImportError:
                raise missing_sdk(provider.name) from None
        return self._sdk_clients[key]

    async def close(self) -> None:
        http, self._http = self._http, None
        self._models.clear()
        self._sdk_clients.clear()
        if http is not None:
            await http.aclose()


_clients = _Clients()


def _forget_in_child() -> None:
    """A forked child keeps what was preloaded, but never the connections of its parent."""
    global _clients
    if _clients.may_have_connections:
        _clients = _Clients()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def close() -> None:
    """Close connections and the loop's thread; the next call opens new ones."""
    event_loop.call_loop.stop(_clients.close())


def preload(names: Sequence[str]) -> None:
    """Import SDKs and build their clients in a process that will be forked: no connection, no thread."""
    for name in names:
        provider = providers()[name]
        if not provider.needs_base_url or base_url(name):
            _clients.sdk_client(provider)
        asyncio.run(_warm_up(provider))


async def _warm_up(provider: Provider) -> None:
    """One call that never leaves the process: SDKs build most of themselves during their first call."""
    # With the maker before it, as who sells models of many makers wants their names.
    name = ModelName(provider.name, provider.default_model or "openai/warm-up")
    request = Request(model=name, messages=(Message("user", "warm up"),), system="warm up")
    headers, content = provider.sample_answer.encoded()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content))
    # What the SDKs' sockets run on loads itself when it is first used.
    await anyio.sleep(0)
    async with httpx2.AsyncClient(transport=transport, timeout=30, verify=False) as http:
        where = Endpoint("http://127.0.0.1", provider.api_version)
        model = provider.build_model(name.model, provider.connect(PLACEHOLDER_KEY, where, http))
        schema = OutputSchema(list[str])
        response = await _ask(model, request, request.messages, schema, _Teller(None))
    _answered(response, request, schema, Exchange(provider.name, secret=""))
