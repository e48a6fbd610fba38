"""Anthropic's protocol: `/v1/messages`. Claude Code speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentos.gateway.dialect import Dialect, Endpoint, Headers, Tokens, bearer, mapping, named_model, whole, without

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def find(method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Endpoint | None:
    match method, path:
        case "POST", "/v1/messages":
            return Endpoint(model=named_model(body), writes=True, is_answer=True)
        case "POST", "/v1/messages/count_tokens":
            return Endpoint(model=named_model(body), counted_as="count_tokens")
        case "GET", _ if "anthropic-version" in headers and (path + "/").startswith("/v1/models/"):
            return Endpoint(counted_as="models")
    return None


def token(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    return headers.get("x-api-key", "") or bearer(headers)


def with_key(headers: Headers, secret: str) -> Headers:
    return [*without(headers, "x-api-key", "authorization"), ("x-api-key", secret)]


def most_output_tokens(body: Mapping[str, Any]) -> int | None:
    return whole(body.get("max_tokens"))


def bounded(body: Mapping[str, Any], path: str, tokens: int) -> dict[str, Any]:
    return {**body, "max_tokens": tokens}


def usage(document: Mapping[str, Any]) -> Tokens:
    """What is read from a cache and written to it is input as well."""
    found = mapping(document.get("usage")) or mapping(mapping(document.get("message")).get("usage"))
    inputs = [
        whole(found.get(name)) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    known = [tokens for tokens in inputs if tokens is not None]
    # A stream opens with a count of output that has only just begun.
    output = None if document.get("type") == "message_start" else whole(found.get("output_tokens"))
    return Tokens(input_tokens=sum(known) if known else None, output_tokens=output)


def text(event: Mapping[str, Any]) -> str:
    delta = mapping(event.get("delta"))
    return "".join(str(delta.get(name) or "") for name in ("text", "thinking", "partial_json"))


def error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": _ERROR_TYPES.get(status, "api_error"), "message": message}}


DIALECT = Dialect(
    name="anthropic",
    base_url="https://api.anthropic.com",
    find=find,
    upstream_path=lambda path: path,
    token=token,
    with_key=with_key,
    most_output_tokens=most_output_tokens,
    bounded=bounded,
    usage=usage,
    text=text,
    error=error,
)
