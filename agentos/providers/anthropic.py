"""Anthropic: the Claude API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentos.providers.evidence import (
    Evidence,
    LearnedLimit,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
)
from agentos.providers.provider import Endpoint, ModelLookup, Provider, SampleReply
from agentos.providers.replies import OVERLOAD_CODES, ErrorReply, by_status, limits_by_name, rfc3339_time

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

NO_CREDIT = re.compile(r"Your credit balance is too low to access the (Anthropic|Claude) API\b")
SPEND_LIMIT = re.compile(
    r"You have reached your specified (?:workspace )?API usage limits\."
    r"(?: You will regain access on (\d{4}-\d\d-\d\d) at (\d\d:\d\d) UTC\.)?"
)
DISABLED = re.compile(r"This organization has been disabled\b")
NOT_ALLOWED = re.compile(r"Request not allowed\b")
LONG_CONTEXT = re.compile(r"(Extra usage is|Usage credits are) required for long context requests\.")


_COUNTED = ("requests", "input_tokens", "output_tokens", "tokens")


def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    return AnthropicProvider(api_key=placeholder_key, base_url=endpoint.base_url, http_client=http)


def build_model(name: str, client: Any) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415

    return AnthropicModel(name, provider=client)


def read_error(reply: ErrorReply) -> Evidence:
    kind = reply.token("type")
    details = reply.error.get("details")
    error_code = details.get("error_code") if isinstance(details, Mapping) else None
    if error_code == "enforced_spend_limit_reached":
        return _spent_until(reply, _next_month(reply.now), "enforced_spend_limit_reached")
    if kind == "billing_error" or reply.status == 402:
        return QuotaSpent(never_resets=True, reason="billing_error")
    if kind == "invalid_request_error" and reply.status == 400:
        if NO_CREDIT.match(reply.message):
            return QuotaSpent(never_resets=True, reason="credit_balance_too_low")
        if spend_limit := SPEND_LIMIT.match(reply.message):
            return _spent_until(reply, _utc_time(spend_limit[1], spend_limit[2]), "spend_limit_reached")
        if DISABLED.match(reply.message):
            return Rejected(reason="organization_disabled")
    if kind in OVERLOAD_CODES or reply.status == 529:
        return Overloaded(retry_after_seconds=reply.retry_after_seconds)
    if kind == "forbidden" or (reply.status == 403 and NOT_ALLOWED.match(reply.message)):
        # A network or a request that is not let in, and no word about the key.
        return NotServed(status=reply.status, reason=kind)
    if kind in {"authentication_error", "permission_error"}:
        return Rejected(reason=kind)
    if kind == "rate_limit_error" or reply.status == 429:
        if LONG_CONTEXT.match(reply.message):
            return RequestFailed(status=reply.status, reason="long_context_not_included")
        return RateLimited(
            retry_after_seconds=reply.retry_after_seconds, limits=read_limits(reply.headers, reply.now)
        )
    return by_status(reply, kind)


def read_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    """Its header of plain tokens repeats the scarcer of the two kinds: it counts only when it is alone."""
    names = {what: f"anthropic-ratelimit-{what.replace('_', '-')}-{{}}" for what in _COUNTED}
    limits = limits_by_name(headers, names, now)
    has_kinds = any(limit.what in {"input_tokens", "output_tokens"} for limit in limits)
    return tuple(limit for limit in limits if not (has_kinds and limit.what == "tokens"))


def _spent_until(reply: ErrorReply, resets_at: float | None, reason: str) -> QuotaSpent:
    if resets_at is None or reply.now is None:
        return QuotaSpent(never_resets=True, reason=reason)
    return QuotaSpent(resets_in_seconds=max(resets_at - reply.now, 0.0), reason=reason)


def _utc_time(date: str | None, clock: str | None) -> float | None:
    return rfc3339_time(f"{date}T{clock}:00+00:00") if date and clock else None


def _next_month(now: float | None) -> float | None:
    if now is None:
        return None
    at = datetime.fromtimestamp(now, UTC)
    return datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC).timestamp()


def answer_problem(document: Mapping[str, Any]) -> str | Mapping[str, Any]:
    if not isinstance(document.get("content"), list):
        return "an answer without content"
    return "" if document.get("stop_reason") else "an answer that stopped before its end"


def ends_stream(event: object) -> bool:
    return isinstance(event, Mapping) and event.get("type") == "message_stop"


# The SDK asks for a stream, whatever it is asked for.
_SAMPLE_MESSAGE: dict[str, Any] = {
    "id": "sample",
    "type": "message",
    "role": "assistant",
    "model": "sample",
    "content": [],
    "stop_reason": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_SAMPLE_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": _SAMPLE_MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
_SAMPLE_RATE_LIMIT = {
    "type": "error",
    "error": {"type": "rate_limit_error", "message": "Simulated by AGENTOS_SIMULATE_429."},
}

PROVIDER = Provider(
    name="anthropic",
    rank=2,
    extra="anthropic",
    sdk_module="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    default_model="claude-sonnet-5",
    check_model="claude-haiku-4-5",
    quota_owner="Anthropic workspace",
    tpm_counts="input_tokens",
    model_lookup=ModelLookup(
        "https://api.anthropic.com",
        "/v1/models/{model}",
        {"x-api-key": "{key}", "anthropic-version": "2023-06-01"},
    ),
    connect=connect,
    build_model=build_model,
    read_error=read_error,
    read_limits=read_limits,
    answer_problem=answer_problem,
    ends_stream=ends_stream,
    sample_answer=SampleReply(events=_SAMPLE_EVENTS),
    sample_rate_limit=SampleReply(_SAMPLE_RATE_LIMIT, headers={"retry-after": "1"}),
)
