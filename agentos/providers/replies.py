"""Failed replies of providers as data: finds the error object, and reads the dates, waits and limits in it. Pure."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentos.providers.evidence import (
    Evidence,
    LearnedLimit,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    TransportFailed,
)

MINUTE_SECONDS = 60.0
HOUR_SECONDS = 3_600.0
DAY_SECONDS = 86_400.0
LONGEST_WAIT_SECONDS = 40 * DAY_SECONDS
"""A monthly spend limit is the longest wait a provider means."""
_FIRST_MOMENT = 1e9
"""As seconds since 1970 a day of 2001; as a wait 31 years."""

OVERLOAD_CODES = frozenset(
    {"engine_overloaded", "engine_overloaded_error", "overloaded_error", "server_is_overloaded", "server_overloaded"}
)

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,99}")
_GO_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """A failed reply with its error object found, and its headers in lower case."""

    status: int | None
    """Also of an error that came inside a reply that began well, where its name tells."""
    headers: Mapping[str, str]
    error: Mapping[str, Any]
    now: float | None
    """The provider's own clock if it sent one."""

    @property
    def message(self) -> str:
        message = self.error.get("message")
        return message if isinstance(message, str) else ""

    def token(self, name: str) -> str:
        """A field that is an identifier, such as a code or type; empty if it is anything else."""
        return identifier(self.error.get(name))

    @property
    def retry_after_seconds(self) -> float | None:
        """The wait that the headers ask for."""
        milliseconds = _decimal(self.headers.get("retry-after-ms", ""))
        if milliseconds is not None:
            return _meant(milliseconds / 1000.0)
        return wait_seconds(self.headers.get("retry-after", ""), self.now)


def read(status: int | None, headers: Mapping[str, str], body: object, now: float | None) -> ErrorReply | None:
    """The reply as its fields; None if nothing came back."""
    error = _error_object(_envelope(body))
    if status is None or status < 300:
        status = _status_of_stream_error(error)
    if status is None and not error:
        return None
    lower = lowered(headers)
    return ErrorReply(status, lower, error, reference_time(lower, now))


def message_of(body: bytes) -> str:
    """The words of an error reply, for people. Nothing is decided by them."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return ""
    return message if isinstance(message, str) else ""


def without_mark(body: bytes) -> bytes:
    """The body without the byte-order mark that some servers put before their JSON."""
    return body.removeprefix(codecs.BOM_UTF8)


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def reference_time(headers: Mapping[str, str], now: float | None) -> float | None:
    """The provider's own clock if it sent one, so that a wrong clock here does not bend its dates."""
    sent = _http_date(headers.get("date", ""))
    return now if sent is None else sent


def by_status(reply: ErrorReply, reason: str) -> Evidence:
    """What the status alone says, when no field said more."""
    match reply.status:
        case 401:
            return Rejected(reason=reason or "401")
        case 402:
            return QuotaSpent(never_resets=True, reason=reason or "402")
        case 403 if reply.error:
            # The key's, the account's or the request's, and no field says which: another key shows it.
            return NotServed(status=403, reason=reason or "403")
        case 408 | 409 | 499:
            return TransportFailed(reason=reason or str(reply.status))
        case 429:
            return RateLimited(retry_after_seconds=reply.retry_after_seconds)
        case int(status) if status == 498 or (status >= 500 and status != 501):
            return Overloaded(retry_after_seconds=reply.retry_after_seconds)
        case int(status) if 300 <= status < 400:
            return RequestFailed(
                status=status, reason=f"a redirect ({status}), which is never followed: check base_url"
            )
        case status:
            # A 403 without an error object is a firewall's or proxy's page and says nothing of the key.
            return RequestFailed(status=status, reason=reason or f"{status} without an error object")


def limits_by_name(
    headers: Mapping[str, str], names: Mapping[str, str], now: float | None
) -> tuple[LearnedLimit, ...]:
    """The limits in `headers`: `names` maps what is counted to a header, {} being limit, remaining or reset."""
    found = (_limit(headers, what, name, now) for what, name in names.items())
    return tuple(limit for limit in found if limit is not None)


def _limit(headers: Mapping[str, str], what: str, name: str, now: float | None) -> LearnedLimit | None:
    value = whole_number(headers.get(name.format("limit")))
    if value is None or value <= 0:
        return None
    resets_in = wait_seconds(headers.get(name.format("reset"), ""), now)
    remaining = whole_number(headers.get(name.format("remaining")))
    return LearnedLimit(
        what=what,
        value=value,
        window_seconds=DAY_SECONDS if _is_daily(value, remaining, resets_in) else MINUTE_SECONDS,
        remaining=remaining,
        resets_in_seconds=resets_in,
    )


def _is_daily(value: int, remaining: int | None, resets_in: float | None) -> bool:
    """Whether a limit is a day's, which no header says.

    The reset is how long the bucket takes to be full again. From what is missing follows how long all of it would
    take: about a day for a day's limit. A minute's may well take minutes, such as the `6m0s` of OpenAI's own example.
    """
    if resets_in is None or resets_in <= MINUTE_SECONDS + 1.0:
        return False
    missing = value - (0 if remaining is None else remaining)
    refill_seconds = resets_in * value / missing if missing > 0 else resets_in
    return resets_in >= HOUR_SECONDS or 0.75 * DAY_SECONDS <= refill_seconds <= 1.25 * DAY_SECONDS


def wait_seconds(text: str, now: float | None) -> float | None:
    """A header's wait: seconds, `6m0s`, or the moment of its end as a date or by the seconds since 1970."""
    wait = _decimal(text)
    if wait is None:
        wait = duration_seconds(text)
    if wait is not None and wait < _FIRST_MOMENT:
        return _meant(wait)
    at = rfc3339_time(text) or _http_date(text) if wait is None else _moment(wait)
    return None if at is None or now is None else _meant(max(at - now, 0.0))


def _moment(number: float) -> float:
    """Seconds or milliseconds since 1970, as its size tells."""
    return number if number < _FIRST_MOMENT * 1000.0 else number / 1000.0


def _meant(seconds: float) -> float | None:
    """None for more than any provider means: a broken number says nothing."""
    return seconds if seconds <= LONGEST_WAIT_SECONDS else None


def duration_seconds(text: str) -> float | None:
    """Seconds of `6m0s` or `250ms`."""
    match = _GO_DURATION.fullmatch(text.strip())
    if match is None or not match[0]:
        return None
    factors = (DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, 1.0, 0.001)
    return sum(float(part) * factor for part, factor in zip(match.groups(), factors, strict=True) if part)


def _decimal(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,15}(\.\d+)?", text.strip()):
        return None
    return float(text)


def whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float) and math.isfinite(value):
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value) else None


def identifier(value: object) -> str:
    return value if isinstance(value, str) and _IDENTIFIER.fullmatch(value) else ""


def _http_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, and every command lists providers

    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def rfc3339_time(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo else None


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
    number = whole_number(code)
    if number is not None and 300 <= number < 600:
        return number
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
            body = json.loads(body.removeprefix("\ufeff"))
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
