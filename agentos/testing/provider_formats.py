"""How Gemini, OpenAI and Anthropic shape a request, a reply and an error on the wire. Pure data, no I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from agentos.llm.schema_example import example_value
from agentos.testing.quotas import Quota, Refusal

Provider = Literal["google", "openai", "anthropic"]
PROVIDERS: tuple[Provider, ...] = ("google", "openai", "anthropic")

Headers = dict[str, str]
ErrorReply = tuple[int, Headers, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as the server understood it."""

    provider: Provider
    model: str
    key_name: str
    prompt: str
    """The last user message."""
    system: str
    conversation: tuple[tuple[str, str], ...]
    """(role, text) of every message, in order."""
    tool_name: str | None
    schema: Mapping[str, Any] | None
    """The structure asked for, as a tool or as a response format."""
    max_output_tokens: int | None = None
    wants_stream: bool = False
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The request as it came."""
    path: str = ""
    """With its query."""
    at_seconds: float = 0.0
    """Since the server started."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.system + "".join(text for _, text in self.conversation))


def estimate_tokens(text: str) -> int:
    return max(1, len(text) // 4)


class Format(Protocol):
    """One provider's dialect."""

    def secret(self, headers: Mapping[str, str]) -> str: ...

    def parse(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of Seen that the request decides."""
        ...

    def reply(self, seen: Seen, text: str, output: Any | None) -> dict[str, Any]: ...

    def limit_headers(self, quota: Quota, now: float, scale: float) -> Headers: ...

    def rate_limited(self, seen: Seen, refusal: Refusal, scale: float) -> ErrorReply: ...

    def failure(self, kind: str, seen: Seen, retry_after_seconds: float | None) -> ErrorReply:
        """A named failure: invalid_key, overloaded, no_credit, no_model, bad_request, server_error, zero_limit."""
        ...


def _texts(content: Any) -> str:
    """Text of a message, whether a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def _last_user(conversation: list[tuple[str, str]]) -> str:
    return next((text for role, text in reversed(conversation) if role == "user"), "")


def _announced(limit: int, scale: float) -> int:
    return round(limit * scale)


class GoogleFormat:
    """Gemini `generateContent`."""

    def secret(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def parse(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        conversation = [
            ("assistant" if turn.get("role") == "model" else "user", _texts(turn.get("parts")))
            for turn in body.get("contents", [])
        ]
        functions = [f for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])]
        last_parts = (body.get("contents") or [{}])[-1].get("parts") or []
        if any("functionResponse" in part or "function_response" in part for part in last_parts):
            functions = []
        generation = body.get("generationConfig", {})
        schema = generation.get("responseJsonSchema") or generation.get("responseSchema")
        if functions:
            # The API takes both spellings of a field, and the SDK sends either.
            names = ("parametersJsonSchema", "parameters_json_schema", "parameters")
            schema = next((functions[0][name] for name in names if functions[0].get(name)), None)
        return {
            "model": path.rsplit("/", 1)[-1].partition(":")[0],
            "wants_stream": path.endswith(":streamGenerateContent"),
            "prompt": _last_user(conversation),
            "system": _texts(body.get("systemInstruction", {}).get("parts")),
            "conversation": tuple(conversation),
            "tool_name": functions[0]["name"] if functions else None,
            "schema": schema,
            "max_output_tokens": generation.get("maxOutputTokens"),
        }

    def reply(self, seen: Seen, text: str, output: Any | None) -> dict[str, Any]:
        part: dict[str, Any] = {"text": text}
        if output is not None and seen.tool_name:
            part = {"functionCall": {"name": seen.tool_name, "args": output}}
        answered = estimate_tokens(text)
        return {
            "candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": seen.tokens,
                "candidatesTokenCount": answered,
                "totalTokenCount": seen.tokens + answered,
            },
            "modelVersion": seen.model,
            "responseId": "resp-1",
        }

    def limit_headers(self, quota: Quota, now: float, scale: float) -> Headers:
        return {}

    def rate_limited(self, seen: Seen, refusal: Refusal, scale: float) -> ErrorReply:
        per = "PerDay" if refusal.period == "day" else "PerMinute"
        metric, unit = "generate_content_free_tier_requests", "Requests"
        if refusal.what == "tokens":
            metric, unit = "generate_content_free_tier_input_token_count", "InputTokens"
        limit = _announced(refusal.limit, 1 if refusal.period == "day" else scale)
        metric = f"generativelanguage.googleapis.com/{metric}"
        # For a spent day Gemini still names a delay of seconds: clients must not believe it.
        delay_seconds = refusal.retry_after_seconds
        if refusal.period == "day":
            delay_seconds = min(delay_seconds, 47.403912)
        violation = {
            "quotaMetric": metric,
            "quotaId": f"Generate{unit}{per}PerProjectPerModel-FreeTier",
            "quotaDimensions": {"location": "global", "model": seen.model},
            "quotaValue": str(limit),
        }
        message = (
            "You exceeded your current quota, please check your plan and billing details. "
            f"* Quota exceeded for metric: {metric}, limit: {limit}\nPlease retry in {delay_seconds:.6f}s."
        )
        details: list[dict[str, Any]] = [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
            {
                "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{"description": "Learn more", "url": "https://ai.google.dev/gemini-api/docs/rate-limits"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay_seconds:.6f}s"},
        ]
        return self._error(429, "RESOURCE_EXHAUSTED", message, details)

    def failure(self, kind: str, seen: Seen, retry_after_seconds: float | None) -> ErrorReply:
        match kind:
            case "invalid_key":
                info = {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                    "metadata": {"service": "generativelanguage.googleapis.com"},
                }
                message = "API key not valid. Please pass a valid API key."
                return self._error(400, "INVALID_ARGUMENT", message, [info])
            case "no_credit":
                return self._error(402, "FAILED_PRECONDITION", "Billing is not enabled for this project.")
            case "overloaded":
                return self._error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
            case "no_model":
                message = f"models/{seen.model} is not found for API version v1beta"
                return self._error(404, "NOT_FOUND", message)
            case "server_error":
                return self._error(500, "INTERNAL", "An internal error has occurred.")
            case "zero_limit":
                refusal = Refusal(what="requests", period="minute", limit=0, retry_after_seconds=30)
                return self.rate_limited(seen, refusal, 1)
            case _:
                return self._error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")

    @staticmethod
    def _error(code: int, status: str, message: str, details: Sequence[dict[str, Any]] = ()) -> ErrorReply:
        error = {"code": code, "message": message, "status": status}
        return code, {}, {"error": {**error, "details": list(details)} if details else error}


class OpenAIFormat:
    """OpenAI chat completions."""

    def secret(self, headers: Mapping[str, str]) -> str:
        # Azure has a header of its own.
        return headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def parse(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        messages = [(m.get("role", ""), _texts(m.get("content"))) for m in body.get("messages", [])]
        conversation = [m for m in messages if m[0] in ("user", "assistant")]
        functions = [tool["function"] for tool in body.get("tools", []) if tool.get("type") == "function"]
        if messages and messages[-1][0] == "tool":
            functions = []
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        if functions:
            schema = functions[0].get("parameters")
        return {
            "model": body.get("model", ""),
            "max_output_tokens": body.get("max_completion_tokens", body.get("max_tokens")),
            "prompt": _last_user(conversation),
            "system": "\n".join(text for role, text in messages if role in ("system", "developer")),
            "conversation": tuple(conversation),
            "tool_name": functions[0]["name"] if functions else None,
            "wants_stream": bool(body.get("stream")),
            "schema": schema,
        }

    def reply(self, seen: Seen, text: str, output: Any | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        finish_reason = "stop"
        if output is not None and seen.tool_name:
            call = {"name": seen.tool_name, "arguments": json.dumps(output)}
            message["content"] = None
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
            finish_reason = "tool_calls"
        answered = estimate_tokens(text)
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": seen.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": seen.tokens,
                "completion_tokens": answered,
                "total_tokens": seen.tokens + answered,
            },
        }

    def limit_headers(self, quota: Quota, now: float, scale: float) -> Headers:
        headers: Headers = {}
        for (what, period), window in quota.windows.items():
            if period == "minute":
                headers[f"x-ratelimit-limit-{what}"] = str(_announced(window.limit, scale))
                headers[f"x-ratelimit-remaining-{what}"] = str(window.remaining(now))
                headers[f"x-ratelimit-reset-{what}"] = _go_duration(window.resets_in(now))
        return headers

    def rate_limited(self, seen: Seen, refusal: Refusal, scale: float) -> ErrorReply:
        short = {"requests": "RPM", "tokens": "TPM"}[refusal.what] if refusal.period == "minute" else "RPD"
        limit = _announced(refusal.limit, 1 if refusal.period == "day" else scale)
        wait = _go_duration(refusal.retry_after_seconds)
        message = (
            f"Rate limit reached for {seen.model} in organization org-test on {refusal.what} per "
            f"{'min' if refusal.period == 'minute' else 'day'} ({short}): Limit {limit}, Used {limit}, Requested 1. "
            f"Please try again in {wait}."
        )
        headers = {
            "retry-after": str(math.ceil(refusal.retry_after_seconds)),
            "retry-after-ms": str(math.ceil(refusal.retry_after_seconds * 1000)),
            f"x-ratelimit-limit-{refusal.what}": str(limit),
            f"x-ratelimit-remaining-{refusal.what}": "0",
            f"x-ratelimit-reset-{refusal.what}": wait,
        }
        return 429, headers, self._error(message, refusal.what, "rate_limit_exceeded")

    def failure(self, kind: str, seen: Seen, retry_after_seconds: float | None) -> ErrorReply:
        headers = {} if retry_after_seconds is None else {"retry-after": str(math.ceil(retry_after_seconds))}
        match kind:
            case "invalid_key":
                message = "Incorrect API key provided. You can find your API key at your account page."
                return 401, headers, self._error(message, "invalid_request_error", "invalid_api_key")
            case "no_credit" | "zero_limit":
                message = "You exceeded your current quota, please check your plan and billing details."
                return 429, headers, self._error(message, "insufficient_quota", "insufficient_quota")
            case "overloaded":
                message = "The engine is currently overloaded, please try again later"
                return 503, headers, self._error(message, "server_error", None)
            case "no_model":
                message = f"The model `{seen.model}` does not exist or you do not have access to it."
                return 404, headers, self._error(message, "invalid_request_error", "model_not_found")
            case "server_error":
                message = "The server had an error while processing your request."
                return 500, headers, self._error(message, "server_error", None)
            case _:
                message = "Invalid value for 'messages'."
                return 400, headers, self._error(message, "invalid_request_error", "invalid_value")

    @staticmethod
    def _error(message: str, type_: str, code: str | None) -> dict[str, Any]:
        return {"error": {"message": message, "type": type_, "param": None, "code": code}}


class AnthropicFormat:
    """Anthropic messages."""

    def secret(self, headers: Mapping[str, str]) -> str:
        # Older SDKs send x-api-key, newer ones a bearer token; the API takes both.
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def parse(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        conversation = [(m.get("role", ""), _texts(m.get("content"))) for m in body.get("messages", [])]
        tools = body.get("tools", [])
        last = (body.get("messages") or [{}])[-1].get("content")
        if isinstance(last, list) and any(part.get("type") == "tool_result" for part in last):
            tools = []
        output_format = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
        return {
            "model": body.get("model", ""),
            "prompt": _last_user(conversation),
            "system": _texts(body.get("system")),
            "conversation": tuple(conversation),
            "tool_name": tools[0]["name"] if tools else None,
            "wants_stream": bool(body.get("stream")),
            "schema": tools[0].get("input_schema") if tools else output_format.get("schema"),
        }

    def reply(self, seen: Seen, text: str, output: Any | None) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": text}
        if output is not None and seen.tool_name:
            block = {"type": "tool_use", "id": "toolu_1", "name": seen.tool_name, "input": output}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": seen.model,
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": seen.tokens, "output_tokens": estimate_tokens(text)},
        }

    def limit_headers(self, quota: Quota, now: float, scale: float) -> Headers:
        headers: Headers = {}
        for (what, period), window in quota.windows.items():
            if period == "minute":
                reset = datetime.now(UTC) + timedelta(seconds=window.resets_in(now))
                headers[f"anthropic-ratelimit-{what}-limit"] = str(_announced(window.limit, scale))
                headers[f"anthropic-ratelimit-{what}-remaining"] = str(window.remaining(now))
                headers[f"anthropic-ratelimit-{what}-reset"] = reset.strftime("%Y-%m-%dT%H:%M:%SZ")
        return headers

    def rate_limited(self, seen: Seen, refusal: Refusal, scale: float) -> ErrorReply:
        headers = {"retry-after": str(math.ceil(refusal.retry_after_seconds)), "x-should-retry": "true"}
        message = (
            f"This request would exceed your organization's rate limit of {_announced(refusal.limit, scale)} "
            f"{refusal.what} per {refusal.period}."
        )
        return 429, headers, self._error("rate_limit_error", message)

    def failure(self, kind: str, seen: Seen, retry_after_seconds: float | None) -> ErrorReply:
        headers = {} if retry_after_seconds is None else {"retry-after": str(math.ceil(retry_after_seconds))}
        match kind:
            case "invalid_key":
                return 401, headers, self._error("authentication_error", "invalid x-api-key")
            case "no_credit" | "zero_limit":
                message = "Your credit balance is too low to access the Anthropic API."
                return 400, headers, self._error("invalid_request_error", message)
            case "overloaded":
                return 529, headers, self._error("overloaded_error", "Overloaded")
            case "no_model":
                return 404, headers, self._error("not_found_error", f"model: {seen.model}")
            case "server_error":
                return 500, headers, self._error("api_error", "Internal server error")
            case _:
                message = "messages: at least one message is required"
                return 400, headers, self._error("invalid_request_error", message)

    @staticmethod
    def _error(type_: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_1"}


FORMATS: dict[Provider, Format] = {
    "google": GoogleFormat(),
    "openai": OpenAIFormat(),
    "anthropic": AnthropicFormat(),
}


def provider_of(path: str) -> Provider | None:
    """Whose endpoint a request path is."""
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "google"
    if path.endswith("/chat/completions"):
        return "openai"
    if path.endswith("/messages"):
        return "anthropic"
    return None


def shape_reply(seen: Seen, text: str, output: Any | None) -> dict[str, Any]:
    """A 200 body. When the request asked for structure and none is given, the smallest value that fits is sent."""
    if seen.schema is not None and output is None:
        output = _as_object(text)
        if output is None:
            output = example_value(seen.schema, text=text)
    if output is not None:
        text = json.dumps(output)
    return FORMATS[seen.provider].reply(seen, text, output)


def as_event_stream(provider: Provider, message: Mapping[str, Any]) -> str:
    """A reply as the server-sent events that a streaming request gets: text in three pieces."""
    match provider:
        case "anthropic":
            events = _anthropic_events(message)
            return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        case "openai":
            return "".join(f"data: {json.dumps(event)}\n\n" for event in _openai_events(message)) + "data: [DONE]\n\n"
        case "google":
            return "".join(f"data: {json.dumps(event)}\n\n" for event in _google_events(message))


def _thirds(text: str) -> list[str]:
    size = max(1, -(-len(text) // 3))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _anthropic_events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    (block,) = message["content"]
    is_text = block["type"] == "text"
    deltas = (
        [{"type": "text_delta", "text": piece} for piece in _thirds(block["text"])]
        if is_text
        else [{"type": "input_json_delta", "partial_json": piece} for piece in _thirds(json.dumps(block["input"]))]
    )
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {**block, "text": ""} if is_text else {**block, "input": {}},
        },
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": message["usage"],
        },
        {"type": "message_stop"},
    ]


def _openai_events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    (choice,) = message["choices"]
    said = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _thirds(said["content"] or "")] if said["content"] else []
    deltas += [{"tool_calls": [{**call, "index": n}]} for n, call in enumerate(said.get("tool_calls", ()))]
    chunk = {**message, "object": "chat.completion.chunk", "usage": None}
    return [
        *({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas),
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**chunk, "choices": [], "usage": message["usage"]},
    ]


def _google_events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    (candidate,) = message["candidates"]
    (part,) = candidate["content"]["parts"]
    if "text" not in part:
        return [dict(message)]
    contents = [{"parts": [{"text": piece}], "role": "model"} for piece in _thirds(part["text"])]
    return [
        *({**message, "candidates": [{"content": content, "index": 0}]} for content in contents[:-1]),
        *({**message, "candidates": [{**candidate, "content": content}]} for content in contents[-1:]),
    ]


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _go_duration(seconds: float) -> str:
    """A duration as OpenAI writes it: 120ms, 1.5s, 6m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3g}s" if minutes else f"{rest:.4g}s"
