"""What a provider's reply says about the key, the quota and the request, read from structured fields only. Pure.

A status, a code, a type, a quota id or a header decides; text never does by what it merely contains. Where a provider
gives a case no field of its own, the whole opening of its own `error.message` is compared, and each such sentence is
listed here. Reasons are made of codes, never of messages: providers put keys into those.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agentos.providers.evidence import (
    Evidence,
    LearnedLimit,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    TransportFailed,
)

MINUTE_SECONDS = 60.0
DAY_SECONDS = 86_400.0

GOOGLE_KEY_REASONS = frozenset(
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
OPENAI_MONEY_CODES = frozenset(
    {
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_exhausted",
        "insufficient_quota",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
    }
)
OVERLOAD_CODES = frozenset(
    {"engine_overloaded", "engine_overloaded_error", "overloaded_error", "server_is_overloaded", "server_overloaded"}
)

OPENAI_TOO_LARGE = re.compile(r"Request too large for .*?: Limit (\d+), Requested (\d+)\.", re.DOTALL)
ANTHROPIC_NO_CREDIT = re.compile(r"Your credit balance is too low to access the (Anthropic|Claude) API\b")
ANTHROPIC_SPEND_LIMIT = re.compile(
    r"You have reached your specified (?:workspace )?API usage limits\."
    r"(?: You will regain access on (\d{4}-\d\d-\d\d) at (\d\d:\d\d) UTC\.)?"
)
ANTHROPIC_LONG_CONTEXT = re.compile(r"(Extra usage is|Usage credits are) required for long context requests\.")

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,99}")
_GOOGLE_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")
_GO_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_GOOGLE_LIMIT_LINE = re.compile(r"^\* Quota exceeded for metric: (\S+), limit: (\d+)(?:,|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Reply:
    """A failed reply with its error object found, and its headers in lower case."""

    status: int | None
    headers: Mapping[str, str]
    error: Mapping[str, Any]
    now: float | None

    @property
    def message(self) -> str:
        message = self.error.get("message")
        return message if isinstance(message, str) else ""

    def token(self, name: str) -> str:
        """A field that is an identifier, such as a code or type; empty if it is anything else."""
        value = self.error.get(name)
        return value if isinstance(value, str) and _IDENTIFIER.fullmatch(value) else ""

    def details(self) -> Iterator[Mapping[str, Any]]:
        """Google's typed details."""
        details = self.error.get("details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping):
                yield detail


def classify(
    provider: str, status: int | None, headers: Mapping[str, str], body: object, *, now: float | None = None
) -> Evidence:
    """Evidence of a failed call. `body` is the reply as parsed JSON, text or bytes; `now` resolves absolute dates."""
    lowered = {str(name).lower(): str(value) for name, value in headers.items()}
    envelope = _envelope(body)
    error = _error_object(envelope)
    if status is None or status < 300:
        status = _status_of_stream_error(error)
    if status is None and not error:
        return TransportFailed(reason="no reply")
    reply = _Reply(status, lowered, error, _reference_time(lowered, now))
    if "details" in error and isinstance(error.get("status"), str):
        provider = "google"  # Its error shape also comes through OpenAI-compatible endpoints.
    match provider:
        case "google":
            return _classify_google(reply)
        case "anthropic":
            return _classify_anthropic(reply)
        case _:
            return _classify_openai(reply)


def limits_from_headers(
    provider: str, headers: Mapping[str, str], *, now: float | None = None
) -> tuple[LearnedLimit, ...]:
    """The limits a reply's headers tell, good or bad reply alike. Google sends none."""
    lowered = {str(name).lower(): str(value) for name, value in headers.items()}
    if provider == "google":
        return ()
    if provider == "anthropic":
        names = [("requests", "requests"), ("tokens", "tokens")]
        if "anthropic-ratelimit-tokens-limit" not in lowered:
            names[1] = ("tokens", "input-tokens")
        keys = [(what, f"anthropic-ratelimit-{name}-{{}}") for what, name in names]
    else:
        keys = [(what, f"x-ratelimit-{{}}-{what}") for what in ("requests", "tokens")]
    reference = _reference_time(lowered, now)
    found = (_limit_from_headers(lowered, what, pattern, reference) for what, pattern in keys)
    return tuple(limit for limit in found if limit is not None)


def _classify_google(reply: _Reply) -> Evidence:
    grpc_status = reply.token("status")
    reasons = {detail["reason"] for detail in reply.details() if isinstance(detail.get("reason"), str)}
    rejected = sorted(reasons & GOOGLE_KEY_REASONS)
    if rejected:
        return Rejected(reason=rejected[0])
    if reply.status == 402 or "BILLING_DISABLED" in reasons:
        return QuotaSpent(never_resets=True, reason="billing")
    if grpc_status == "RESOURCE_EXHAUSTED" or reply.status == 429:
        return _google_exhausted(reply)
    if grpc_status in {"UNAUTHENTICATED", "PERMISSION_DENIED"}:
        return Rejected(reason=grpc_status)
    return _by_status(reply, grpc_status)


def _google_exhausted(reply: _Reply) -> Evidence:
    limits: list[LearnedLimit] = []
    spent_for_the_day = ""
    for quota_id, value in _google_violations(reply):
        if value == 0:
            return QuotaSpent(never_resets=True, reason=f"{quota_id} limit 0".strip())
        is_daily = re.search(r"PerDay(?![a-z])", quota_id) is not None
        if is_daily:
            spent_for_the_day = spent_for_the_day or quota_id
        if value is not None and (is_daily or re.search(r"PerMinute(?![a-z])", quota_id)):
            what = "tokens" if "Token" in quota_id else "requests"
            window = DAY_SECONDS if is_daily else MINUTE_SECONDS
            limits.append(LearnedLimit(what=what, value=value, window_seconds=window))
    if spent_for_the_day:
        # The delay sent with a daily quota is often seconds: the day decides.
        return QuotaSpent(reason=spent_for_the_day)
    return RateLimited(retry_after_seconds=_google_delay(reply), limits=tuple(limits))


def _google_violations(reply: _Reply) -> Iterator[tuple[str, int | None]]:
    """(quota id, its limit if told) of every violated quota."""
    told_in_message = {metric: int(limit) for metric, limit in _GOOGLE_LIMIT_LINE.findall(reply.message)}
    for detail in reply.details():
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping):
                # Protocol buffers leave out a zero, so a missing value is looked up under the metric's name.
                value = _whole_number(violation.get("quotaValue"))
                metric = str(violation.get("quotaMetric", ""))
                yield _identifier(violation.get("quotaId")), told_in_message.get(metric) if value is None else value
        metadata = detail.get("metadata")
        if isinstance(metadata, Mapping) and "quota_limit" in metadata:
            yield _identifier(metadata["quota_limit"]), _whole_number(metadata.get("quota_limit_value"))


def _google_delay(reply: _Reply) -> float | None:
    for detail in reply.details():
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (match := _GOOGLE_DURATION.fullmatch(delay)):
            return float(match[1])
        if isinstance(delay, Mapping):
            return float(_whole_number(delay.get("seconds")) or 0) + (_whole_number(delay.get("nanos")) or 0) / 1e9
    return _retry_after(reply)


def _classify_openai(reply: _Reply) -> Evidence:
    code, kind = reply.token("code"), reply.token("type")
    money = next((name for name in (code, kind) if name in OPENAI_MONEY_CODES), "")
    if money:
        return QuotaSpent(never_resets=True, reason=money)
    if reply.status == 403 and code == "model_not_found":
        # The project may not use this model; the key is good for others.
        return QuotaSpent(never_resets=True, reason=code)
    if reply.status == 403 and code == "unsupported_country_region_territory":
        return RequestFailed(status=403, reason=code)
    if OVERLOAD_CODES & {code, kind}:
        return Overloaded(retry_after_seconds=_retry_after(reply))
    if reply.status == 429:
        too_large = OPENAI_TOO_LARGE.match(reply.message)
        if too_large and int(too_large[2]) > int(too_large[1]):
            return RequestFailed(status=429, reason="request_too_large")
        limits = limits_from_headers("openai", reply.headers, now=reply.now)
        return RateLimited(retry_after_seconds=_openai_delay(reply, kind), limits=limits)
    return _by_status(reply, code or kind)


def _openai_delay(reply: _Reply, kind: str) -> float | None:
    """The stated wait, else the reset of whichever limit was hit."""
    delay = _retry_after(reply)
    if delay is None and kind in {"requests", "tokens"}:
        delay = _go_duration(reply.headers.get(f"x-ratelimit-reset-{kind}", ""))
    return delay


def _classify_anthropic(reply: _Reply) -> Evidence:
    kind = reply.token("type")
    details = reply.error.get("details")
    error_code = details.get("error_code") if isinstance(details, Mapping) else None
    if error_code == "enforced_spend_limit_reached":
        return _spent_until(reply, _next_month(reply.now), "enforced_spend_limit_reached")
    if kind == "billing_error" or reply.status == 402:
        return QuotaSpent(never_resets=True, reason="billing_error")
    if kind == "invalid_request_error" and reply.status == 400:
        if ANTHROPIC_NO_CREDIT.match(reply.message):
            return QuotaSpent(never_resets=True, reason="credit_balance_too_low")
        if spend_limit := ANTHROPIC_SPEND_LIMIT.match(reply.message):
            return _spent_until(reply, _utc_time(spend_limit[1], spend_limit[2]), "spend_limit_reached")
    if kind in OVERLOAD_CODES or reply.status == 529:
        return Overloaded(retry_after_seconds=_retry_after(reply))
    if kind in {"authentication_error", "permission_error"}:
        return Rejected(reason=kind)
    if kind == "rate_limit_error" or reply.status == 429:
        if ANTHROPIC_LONG_CONTEXT.match(reply.message):
            return RequestFailed(status=reply.status, reason="long_context_not_included")
        limits = limits_from_headers("anthropic", reply.headers, now=reply.now)
        return RateLimited(retry_after_seconds=_retry_after(reply), limits=limits)
    return _by_status(reply, kind)


def _spent_until(reply: _Reply, resets_at: float | None, reason: str) -> QuotaSpent:
    if resets_at is None or reply.now is None:
        return QuotaSpent(never_resets=True, reason=reason)
    return QuotaSpent(resets_in_seconds=max(resets_at - reply.now, 0.0), reason=reason)


def _by_status(reply: _Reply, reason: str) -> Evidence:
    """What the status alone says, when no field said more."""
    match reply.status:
        case 401:
            return Rejected(reason=reason or "401")
        case 402:
            return QuotaSpent(never_resets=True, reason=reason or "402")
        case 403 if reply.error:
            return Rejected(reason=reason or "403")
        case 408 | 499:
            return TransportFailed(reason=reason or str(reply.status))
        case 429:
            return RateLimited(retry_after_seconds=_retry_after(reply))
        case int(status) if status >= 500 and status != 501:
            return Overloaded(retry_after_seconds=_retry_after(reply))
        case status:
            # A 403 without an error object is a firewall's or proxy's page and says nothing of the key.
            return RequestFailed(status=status, reason=reason or f"{status} without an error object")


_STREAM_STATUS = {
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "timeout_error": 504,
}


def _status_of_stream_error(error: Mapping[str, Any]) -> int | None:
    """The status an error stands for that came inside a reply that began well."""
    code = error.get("code")
    if isinstance(code, int) and 300 <= code < 600:
        return code
    for name in (code, error.get("type")):
        if isinstance(name, str) and name in _STREAM_STATUS:
            return _STREAM_STATUS[name]
    return None


def _envelope(body: object) -> object:
    """The body as data: text is parsed if it is JSON, a list stands for its first element."""
    if isinstance(body, bytes | bytearray):
        body = bytes(body).decode("utf-8", errors="replace")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return None
    return body[0] if isinstance(body, list) and body else body


def _error_object(envelope: object) -> Mapping[str, Any]:
    """The object with code, type, status and message: inside `error`, or the body itself as some SDKs give it."""
    if not isinstance(envelope, Mapping):
        return {}
    error = envelope.get("error", envelope)
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, Mapping):
        return {}
    message = error.get("message")
    if isinstance(message, str) and message.lstrip().startswith("{"):
        # Some gateways put the provider's whole reply into the message.
        inner = _envelope(message)
        if isinstance(inner, Mapping) and isinstance(inner.get("error"), Mapping):
            return _error_object(inner)
    return error


def _reference_time(headers: Mapping[str, str], now: float | None) -> float | None:
    """The provider's own clock if it sent one, so that a wrong clock here does not bend its dates."""
    sent = _http_date(headers.get("date", ""))
    return now if sent is None else sent


def _retry_after(reply: _Reply) -> float | None:
    milliseconds = _decimal(reply.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000.0
    text = reply.headers.get("retry-after", "").strip()
    seconds = _decimal(text)
    if seconds is None and reply.now is not None:
        at = _http_date(text)
        return None if at is None else max(at - reply.now, 0.0)
    return seconds


def _limit_from_headers(
    headers: Mapping[str, str], what: str, pattern: str, reference: float | None
) -> LearnedLimit | None:
    value = _whole_number(headers.get(pattern.format("limit")))
    if value is None or value <= 0:
        return None
    resets_in = _reset(headers.get(pattern.format("reset"), ""), reference)
    # A minute's limit is whole again within a minute; one that takes longer is a day's.
    is_daily = resets_in is not None and resets_in > MINUTE_SECONDS + 1.0
    return LearnedLimit(
        what=what,
        value=value,
        window_seconds=DAY_SECONDS if is_daily else MINUTE_SECONDS,
        remaining=_whole_number(headers.get(pattern.format("remaining"))),
        resets_in_seconds=resets_in,
    )


def _reset(text: str, reference: float | None) -> float | None:
    """A reset header's wait: `6m0s`, seconds, or a date and time."""
    wait = _go_duration(text)
    if wait is None:
        wait = _decimal(text)
    if wait is None and reference is not None:
        at = _rfc3339(text)
        wait = None if at is None else max(at - reference, 0.0)
    return wait


def _go_duration(text: str) -> float | None:
    match = _GO_DURATION.fullmatch(text.strip())
    if match is None or not match[0]:
        return None
    factors = (DAY_SECONDS, 3_600.0, MINUTE_SECONDS, 1.0, 0.001)
    return sum(float(part) * factor for part, factor in zip(match.groups(), factors, strict=True) if part)


def _decimal(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,12}(\.\d+)?", text.strip()):
        return None
    return float(text)


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float) and math.isfinite(value):
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value) else None


def _identifier(value: object) -> str:
    return value if isinstance(value, str) and _IDENTIFIER.fullmatch(value) else ""


def _http_date(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _rfc3339(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo else None


def _utc_time(date: str | None, clock: str | None) -> float | None:
    return _rfc3339(f"{date}T{clock}:00+00:00") if date and clock else None


def _next_month(now: float | None) -> float | None:
    if now is None:
        return None
    at = datetime.fromtimestamp(now, UTC)
    return datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC).timestamp()
