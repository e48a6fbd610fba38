"""Gemini's protocol: `/v1beta/models/MODEL:generateContent`. The Gemini CLI speaks it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentos.gateway.dialect import Dialect, Endpoint, Headers, Tokens, bearer, mapping, mappings, whole, without

_CALL = re.compile(r"/v1(?:beta|alpha)?/(?:models|tunedModels)/(?P<model>[^/:]+):(?P<verb>[A-Za-z]+)")
_MODELS = re.compile(r"/v1(?:beta|alpha)/models(?:/[^/:]+)?")
_ANSWERS = ("generateContent", "streamGenerateContent")
_COUNTED_APART = ("countTokens",)
_EMBEDDINGS = ("embedContent", "batchEmbedContents")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
}


def find(method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Endpoint | None:
    call = _CALL.fullmatch(path)
    if method == "POST" and call is not None:
        verb = call["verb"]
        if verb in _ANSWERS:
            return Endpoint(
                model=call["model"],
                writes=True,
                is_answer=True,
                model_in_path=True,
                streams_list=verb == "streamGenerateContent",
            )
        if verb in _COUNTED_APART:
            return Endpoint(model=call["model"], counted_as=verb, model_in_path=True)
        if verb in _EMBEDDINGS:
            return Endpoint(model=call["model"], model_in_path=True)
    if method == "GET" and _MODELS.fullmatch(path):
        return Endpoint(counted_as="models")
    return None


def token(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    return headers.get("x-goog-api-key", "") or query.get("key", "") or bearer(headers)


def with_key(headers: Headers, secret: str) -> Headers:
    return [*without(headers, "x-goog-api-key", "authorization"), ("x-goog-api-key", secret)]


def _configured(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its JSON takes both ways to write a name."""
    return mapping(body.get("generationConfig")) or mapping(body.get("generation_config"))


def most_output_tokens(body: Mapping[str, Any]) -> int | None:
    configured = _configured(body)
    return whole(configured.get("maxOutputTokens", configured.get("max_output_tokens")))


def bounded(body: Mapping[str, Any], path: str, tokens: int) -> dict[str, Any]:
    name = "generation_config" if "generation_config" in body else "generationConfig"
    return {**body, name: {**_configured(body), "maxOutputTokens": tokens}}


def usage(document: Mapping[str, Any]) -> Tokens:
    found = mapping(document.get("usageMetadata"))
    outputs = [whole(found.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    known = [tokens for tokens in outputs if tokens is not None]
    return Tokens(input_tokens=whole(found.get("promptTokenCount")), output_tokens=sum(known) if known else None)


def text(event: Mapping[str, Any]) -> str:
    contents = [mapping(candidate.get("content")) for candidate in mappings(event.get("candidates"))]
    return "".join(str(part.get("text") or "") for each in contents for part in mappings(each.get("parts")))


def error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "UNAVAILABLE")}}


DIALECT = Dialect(
    name="google",
    base_url="https://generativelanguage.googleapis.com",
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
