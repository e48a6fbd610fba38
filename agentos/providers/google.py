"""Google: the Gemini API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentos.providers.evidence import Evidence, LearnedLimit, NotServed, QuotaSpent, RateLimited, Rejected
from agentos.providers.provider import Endpoint, ModelLookup, Provider, SampleReply
from agentos.providers.replies import DAY_SECONDS, MINUTE_SECONDS, ErrorReply, by_status, identifier, whole_number

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

KEY_REASONS = frozenset(
    {
        "ACCESS_TOKEN_EXPIRED",
        "API_KEY_ANDROID_APP_BLOCKED",
        "API_KEY_HTTP_REFERRER_BLOCKED",
        "API_KEY_INVALID",
        "API_KEY_IOS_APP_BLOCKED",
        "API_KEY_IP_ADDRESS_BLOCKED",
        "API_KEY_SERVICE_BLOCKED",
        "CONSUMER_INVALID",
        "CONSUMER_SUSPENDED",
        "CREDENTIALS_MISSING",
        "SERVICE_DISABLED",
    }
)
NO_MONEY = {
    "prepayment_credits_depleted": re.compile(r"Your prepayment credits are depleted\b"),
    "monthly_spending_cap": re.compile(r"Your project has exceeded its monthly spending cap\b"),
}
"""Both come as a plain `RESOURCE_EXHAUSTED` without details."""
ELSEWHERE = re.compile(r"User location is not supported for the API use\b")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")
_LIMIT_LINE = re.compile(r"^\* Quota exceeded for metric: (\S+), limit: (\d+)(?:,|$)", re.MULTILINE)


def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

    from agentos.providers.google_client import client  # noqa: PLC0415

    return GoogleProvider(client=client(placeholder_key, endpoint, http, vertexai=False))


def build_model(name: str, client: Any) -> Model:
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415

    return GoogleModel(name, provider=client)


def is_own_error(error: Mapping[str, Any]) -> bool:
    """Google's shape also comes through OpenAI-compatible endpoints."""
    return "details" in error and isinstance(error.get("status"), str)


def read_error(reply: ErrorReply) -> Evidence:
    grpc_status = reply.token("status")
    reasons = {detail["reason"] for detail in _details(reply) if isinstance(detail.get("reason"), str)}
    rejected = sorted(reasons & KEY_REASONS)
    if rejected:
        return Rejected(reason=rejected[0])
    if reply.status == 402 or "BILLING_DISABLED" in reasons:
        return QuotaSpent(never_resets=True, reason="billing")
    if grpc_status == "RESOURCE_EXHAUSTED" or reply.status == 429:
        return _exhausted(reply)
    if grpc_status in {"UNAUTHENTICATED", "PERMISSION_DENIED"}:
        return Rejected(reason=grpc_status)
    if grpc_status == "FAILED_PRECONDITION" and ELSEWHERE.match(reply.message):
        return NotServed(status=reply.status, reason="location_not_supported")
    return by_status(reply, grpc_status)


def _details(reply: ErrorReply) -> Iterator[Mapping[str, Any]]:
    details = reply.error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping):
            yield detail


def _exhausted(reply: ErrorReply) -> Evidence:
    for reason, words in NO_MONEY.items():
        if words.match(reply.message):
            return QuotaSpent(never_resets=True, reason=reason)
    limits: list[LearnedLimit] = []
    spent_for_the_day = ""
    for quota_id, value in _violations(reply):
        if value == 0:
            return QuotaSpent(never_resets=True, reason=f"{quota_id} limit 0".strip())
        is_daily = re.search(r"PerDay(?![a-z])", quota_id) is not None
        if is_daily:
            spent_for_the_day = spent_for_the_day or quota_id
        if value is not None and (is_daily or re.search(r"PerMinute(?![a-z])", quota_id)):
            what = _counted(quota_id)
            window = DAY_SECONDS if is_daily else MINUTE_SECONDS
            limits.append(LearnedLimit(what=what, value=value, window_seconds=window))
    if spent_for_the_day:
        # The delay sent with a daily quota is often seconds: the day decides.
        return QuotaSpent(reason=spent_for_the_day)
    return RateLimited(retry_after_seconds=_delay(reply), limits=tuple(limits))


def _counted(quota_id: str) -> str:
    if "Token" not in quota_id:
        return "requests"
    return "input_tokens" if "InputToken" in quota_id else "output_tokens" if "OutputToken" in quota_id else "tokens"


def _violations(reply: ErrorReply) -> Iterator[tuple[str, int | None]]:
    """(quota id, its limit if told) of every violated quota."""
    told_in_message = {metric: int(limit) for metric, limit in _LIMIT_LINE.findall(reply.message)}
    for detail in _details(reply):
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping):
                # Protocol buffers leave out a zero, so a missing value is looked up under the metric's name.
                value = whole_number(violation.get("quotaValue"))
                metric = str(violation.get("quotaMetric", ""))
                yield identifier(violation.get("quotaId")), told_in_message.get(metric) if value is None else value
        metadata = detail.get("metadata")
        if isinstance(metadata, Mapping) and "quota_limit" in metadata:
            yield identifier(metadata["quota_limit"]), whole_number(metadata.get("quota_limit_value"))


def _delay(reply: ErrorReply) -> float | None:
    for detail in _details(reply):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (match := _DURATION.fullmatch(delay)):
            return float(match[1])
        if isinstance(delay, Mapping):
            return float(whole_number(delay.get("seconds")) or 0) + (whole_number(delay.get("nanos")) or 0) / 1e9
    return reply.retry_after_seconds


def answer_problem(document: Mapping[str, Any]) -> str | Mapping[str, Any]:
    feedback = document.get("promptFeedback")
    if isinstance(feedback, Mapping) and feedback.get("blockReason"):
        return ""  # An answer of its own kind: the prompt is refused.
    candidates = document.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(first, Mapping):
        return "an answer without candidates"
    # By the API's own words, without a reason the model has not stopped.
    return "" if first.get("finishReason") else "an answer that stopped before its end"


def ends_stream(event: object) -> bool:
    return isinstance(event, Mapping) and not answer_problem(event)


_SAMPLE_ANSWER = {
    "candidates": [{"content": {"parts": [{"text": "ok"}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}
_SAMPLE_RATE_LIMIT = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "Simulated by AGENTOS_SIMULATE_429.",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}],
    }
}

PROVIDER = Provider(
    name="google",
    rank=1,
    extra="google",
    sdk_module="google.genai",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    default_model="gemini-3.1-pro-preview",
    check_model="gemini-2.5-flash-lite",
    quota_owner="Google project",
    tpm_counts="input_tokens",
    day_zone="America/Los_Angeles",
    day_offset_hours=-8,
    model_lookup=ModelLookup(
        "https://generativelanguage.googleapis.com", "/v1beta/models/{model}", {"x-goog-api-key": "{key}"}
    ),
    connect=connect,
    build_model=build_model,
    read_error=read_error,
    is_own_error=is_own_error,
    answer_problem=answer_problem,
    ends_stream=ends_stream,
    sample_answer=SampleReply(_SAMPLE_ANSWER),
    sample_rate_limit=SampleReply(_SAMPLE_RATE_LIMIT),
)
