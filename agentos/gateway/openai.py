"""OpenAI's protocol: `/v1/chat/completions`, `/v1/responses`. Codex and most other clients speak it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentos.gateway.dialect import (
    Dialect,
    Endpoint,
    Headers,
    Tokens,
    bearer,
    mapping,
    mappings,
    named_model,
    whole,
    without,
)

RESPONSES = "/v1/responses"
_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
_BOUND_OF = {RESPONSES: "max_output_tokens", "/v1/completions": "max_tokens"}
_BOUNDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_ERROR_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "billing_hard_limit_reached"),
    429: ("insufficient_quota", "insufficient_quota"),
}


def find(method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Endpoint | None:
    model = named_model(body)
    match method, path:
        case "POST", "/v1/chat/completions":
            return Endpoint(model=model, writes=True, is_answer=True)
        case "POST", "/v1/completions":
            return Endpoint(model=model, writes=True)
        case "POST", "/v1/responses":
            return Endpoint(model=model, writes=True, ends_stream=ends_responses)
        case "POST", "/v1/responses/input_tokens":
            return Endpoint(model=model, counted_as="input_tokens")
        case "POST", _ if path.startswith(f"{RESPONSES}/") and model:
            return Endpoint(model=model, ends_stream=ends_responses)
        case "POST", "/v1/embeddings":
            return Endpoint(model=model)
        case "GET" | "POST" | "DELETE", _ if path.startswith(f"{RESPONSES}/"):
            return Endpoint(counted_as="responses", ends_stream=ends_responses)
        case "GET", _ if (path + "/").startswith("/v1/models/"):
            return Endpoint(counted_as="models")
    return None


def ends_responses(event: object) -> bool:
    return isinstance(event, Mapping) and event.get("type") in _RESPONSE_ENDS


def token(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    return bearer(headers) or headers.get("api-key", "")


def with_key(headers: Headers, secret: str) -> Headers:
    return [*without(headers, "authorization", "api-key"), ("authorization", f"Bearer {secret}")]


def most_output_tokens(body: Mapping[str, Any]) -> int | None:
    return next((tokens for name in _BOUNDS if (tokens := whole(body.get(name))) is not None), None)


def bounded(body: Mapping[str, Any], path: str, tokens: int) -> dict[str, Any]:
    return {**body, _BOUND_OF.get(path, "max_completion_tokens"): tokens}


def bounded_elsewhere(body: Mapping[str, Any], path: str, tokens: int) -> dict[str, Any]:
    """Servers of others know the older name, and some refuse what they do not know."""
    return {**body, _BOUND_OF.get(path, "max_tokens"): tokens}


def usage(document: Mapping[str, Any]) -> Tokens:
    found = mapping(document.get("usage")) or mapping(mapping(document.get("response")).get("usage"))
    return Tokens(
        input_tokens=whole(found.get("prompt_tokens", found.get("input_tokens"))),
        output_tokens=whole(found.get("completion_tokens", found.get("output_tokens"))),
    )


def text(event: Mapping[str, Any]) -> str:
    if isinstance(event.get("delta"), str):
        return str(event["delta"])
    deltas = [mapping(choice.get("delta")) for choice in mappings(event.get("choices"))]
    words = [str(delta.get("content") or delta.get("reasoning_content") or "") for delta in deltas]
    calls = [call for delta in deltas for call in mappings(delta.get("tool_calls"))]
    return "".join([*words, *(str(mapping(call.get("function")).get("arguments") or "") for call in calls)])


def error(status: int, message: str) -> dict[str, Any]:
    kind, code = _ERROR_TYPES.get(status, ("invalid_request_error" if status < 500 else "server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


DIALECT = Dialect(
    name="openai",
    base_url="https://api.openai.com/v1",
    find=find,
    upstream_path=lambda path: path.removeprefix("/v1"),
    token=token,
    with_key=with_key,
    most_output_tokens=most_output_tokens,
    bounded=bounded,
    usage=usage,
    text=text,
    error=error,
)
COMPATIBLE = replace(DIALECT, bounded=bounded_elsewhere)
"""The same as other providers speak it."""
