"""Replies of providers as they really look, what each one means, and where it is documented or was seen.

The tests of classification read these, and `docs/reference/replies.md` lists them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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

DOCUMENTED = {
    "google": (
        "https://ai.google.dev/gemini-api/docs/troubleshooting",
        "https://ai.google.dev/gemini-api/docs/rate-limits",
    ),
    "openai": (
        "https://platform.openai.com/docs/guides/error-codes",
        "https://platform.openai.com/docs/guides/rate-limits",
    ),
    "anthropic": ("https://docs.claude.com/en/api/errors", "https://docs.claude.com/en/api/rate-limits"),
}
"""Where the forms are described that a provider's errors and limits have."""

NOW = 1_750_000_000.0  # 2025-06-15T15:06:40Z
HTML = "<html><head><title>403 Forbidden</title></head><body>quota 429 RESOURCE_EXHAUSTED</body></html>"


@dataclass(frozen=True)
class Case:
    name: str
    provider: str
    status: int | None
    body: object
    expected: Evidence
    headers: dict[str, str] = field(default_factory=dict)
    source: str = ""
    """Where the provider documents it, or where it was seen."""


def google(code: int, status: str, message: str = "", details: list[Any] | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details is not None:
        error["details"] = details
    return {"error": error}


def violations(*quotas: tuple[str, str | None]) -> dict[str, Any]:
    found = []
    for quota_id, value in quotas:
        violation = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": quota_id,
            "quotaDimensions": {"location": "global", "model": "gemini-2.5-pro"},
        }
        if value is not None:
            violation["quotaValue"] = value
        found.append(violation)
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": found}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def error_info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com", **metadata},
    }


def openai(message: str, kind: str | None, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_011CZ4290403"}


QUOTA_MESSAGE = "You exceeded your current quota, please check your plan and billing details."
ZERO_LINE = (
    "\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests,"
    " limit: 0, model: gemini-3-pro\nPlease retry in 45.578569677s."
)
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
TOKENS_PER_MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"
TOO_LARGE = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested {}. "
    "The input or output tokens must be reduced in order to run successfully."
)

GEMINI = [
    Case(
        "a minute's limit with the delay in the body and the limit in quotaValue",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", QUOTA_MESSAGE, [violations((PER_MINUTE, "10")), retry_info("47.403912s")]),
        RateLimited(
            retry_after_seconds=47.403912,
            limits=(LearnedLimit(what="requests", value=10, window_seconds=60.0),),
        ),
    ),
    Case(
        "tokens of a minute",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "", [violations((TOKENS_PER_MINUTE, "250000")), retry_info("12s")]),
        RateLimited(
            retry_after_seconds=12.0,
            limits=(LearnedLimit(what="input_tokens", value=250_000, window_seconds=60.0),),
        ),
    ),
    Case(
        "the day's quota, whose delay of seconds is wrong",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", QUOTA_MESSAGE, [violations((PER_DAY, "250")), retry_info("31s")]),
        QuotaSpent(reason=PER_DAY),
    ),
    Case(
        "minute and day together: the day decides",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "", [violations((PER_MINUTE, "10"), (PER_DAY, "250"))]),
        QuotaSpent(reason=PER_DAY),
    ),
    Case(
        "an older daily reply without quotaValue or tier",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "", [violations(("GenerateRequestsPerDayPerProjectPerModel", None))]),
        QuotaSpent(reason="GenerateRequestsPerDayPerProjectPerModel"),
    ),
    Case(
        "limit 0 in quotaValue",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "", [violations((PER_MINUTE, "0")), retry_info("20s")]),
        QuotaSpent(never_resets=True, reason=f"{PER_MINUTE} limit 0"),
    ),
    Case(
        "limit 0 left out of the violation but in its metric's line",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", QUOTA_MESSAGE + ZERO_LINE, [violations((PER_MINUTE, None))]),
        QuotaSpent(never_resets=True, reason=f"{PER_MINUTE} limit 0"),
    ),
    Case(
        "limit: 0 somewhere in the text, of no violated metric",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "see limit: 0 in the docs", [violations((PER_MINUTE, None))]),
        RateLimited(),
    ),
    Case(
        "no details at all",
        "google",
        429,
        google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        RateLimited(),
    ),
    Case(
        "the quota named in ErrorInfo metadata",
        "google",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "",
            [
                error_info(
                    "RATE_LIMIT_EXCEEDED",
                    quota_limit="GenerateRequestsPerMinutePerProject",
                    quota_limit_value="60",
                )
            ],
        ),
        RateLimited(limits=(LearnedLimit(what="requests", value=60, window_seconds=60.0),)),
    ),
    Case(
        "an invalid key comes as 400",
        "google",
        400,
        google(400, "INVALID_ARGUMENT", "API key not valid.", [error_info("API_KEY_INVALID")]),
        Rejected(reason="API_KEY_INVALID"),
    ),
    Case(
        "an expired key, too",
        "google",
        400,
        google(
            400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", [error_info("API_KEY_INVALID")]
        ),
        Rejected(reason="API_KEY_INVALID"),
    ),
    Case(
        "a leaked key has no details",
        "google",
        403,
        google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key."),
        Rejected(reason="PERMISSION_DENIED"),
    ),
    Case(
        "a suspended consumer, whose message holds the key",
        "google",
        403,
        google(
            403,
            "PERMISSION_DENIED",
            "Permission denied: Consumer 'api_key:AIzaSENTINEL' has been suspended.",
            [error_info("CONSUMER_SUSPENDED", containerInfo="api_key:AIzaSENTINEL")],
        ),
        Rejected(reason="CONSUMER_SUSPENDED"),
    ),
    Case("no permission", "google", 403, google(403, "PERMISSION_DENIED"), Rejected(reason="PERMISSION_DENIED")),
    Case("no credentials", "google", 401, google(401, "UNAUTHENTICATED"), Rejected(reason="UNAUTHENTICATED")),
    Case("payment required", "google", 402, google(402, "X"), QuotaSpent(never_resets=True, reason="billing")),
    Case(
        "billing disabled",
        "google",
        403,
        google(403, "PERMISSION_DENIED", "", [error_info("BILLING_DISABLED")]),
        QuotaSpent(never_resets=True, reason="billing"),
    ),
    Case(
        "overload",
        "google",
        503,
        google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        Overloaded(),
    ),
    Case(
        "503 that is a quota",
        "google",
        503,
        google(503, "RESOURCE_EXHAUSTED", "", [retry_info("5s")]),
        RateLimited(retry_after_seconds=5.0),
    ),
    Case("an internal error", "google", 500, google(500, "INTERNAL"), Overloaded()),
    Case("a deadline of theirs", "google", 504, google(504, "DEADLINE_EXCEEDED"), Overloaded()),
    Case(
        "a bad request that talks of quota, 429 and 403",
        "google",
        400,
        google(400, "INVALID_ARGUMENT", "Field 'quota' at line 429: RESOURCE_EXHAUSTED 403 is not a valid value"),
        RequestFailed(status=400, reason="INVALID_ARGUMENT"),
    ),
    Case(
        "an unknown model",
        "google",
        404,
        google(404, "NOT_FOUND", "models/gemini-429 is not found"),
        RequestFailed(status=404, reason="NOT_FOUND"),
    ),
    Case(
        "a region that is not served",
        "google",
        400,
        google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        NotServed(status=400, reason="location_not_supported"),
    ),
    Case(
        "a stream's error comes in a list",
        "google",
        429,
        json.dumps([google(429, "RESOURCE_EXHAUSTED", "", [retry_info("3s")])]),
        RateLimited(retry_after_seconds=3.0),
    ),
    Case(
        "a gateway that wraps the whole reply into the message",
        "google",
        429,
        {"error": {"message": json.dumps(google(429, "RESOURCE_EXHAUSTED", "", [violations((PER_DAY, "20"))]))}},
        QuotaSpent(reason=PER_DAY),
    ),
    Case(
        "Gemini behind an OpenAI-compatible endpoint",
        "openai",
        429,
        [google(429, "RESOURCE_EXHAUSTED", "", [violations((PER_DAY, "20"))])],
        QuotaSpent(reason=PER_DAY),
    ),
    Case(
        "a proxy's page with every trap word",
        "google",
        403,
        HTML,
        RequestFailed(status=403, reason="403 without an error object"),
    ),
    Case("a proxy's 429 page", "google", 429, HTML, RateLimited(retry_after_seconds=9.0), {"Retry-After": "9"}),
]

OPENAI = [
    Case(
        "requests of a minute, with headers",
        "openai",
        429,
        openai("Rate limit reached for gpt-4o on requests per min (RPM): Limit 3", "requests", "rate_limit_exceeded"),
        RateLimited(
            retry_after_seconds=20.0,
            limits=(
                LearnedLimit(what="requests", value=3, window_seconds=60.0, remaining=0, resets_in_seconds=20.0),
            ),
        ),
        {
            "retry-after": "20",
            "x-ratelimit-limit-requests": "3",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "20s",
        },
    ),
    Case(
        "no Retry-After: the reset of the limit that was hit",
        "openai",
        429,
        openai("Rate limit reached", "tokens", "rate_limit_exceeded"),
        RateLimited(retry_after_seconds=360.0),
        {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "1s"},
    ),
    Case(
        "milliseconds win over seconds",
        "openai",
        429,
        openai("", "requests", "rate_limit_exceeded"),
        RateLimited(retry_after_seconds=0.25),
        {"retry-after-ms": "250", "Retry-After": "1"},
    ),
    Case(
        "Retry-After as a date, by the server's own clock",
        "openai",
        429,
        openai("", "requests", "rate_limit_exceeded"),
        RateLimited(retry_after_seconds=30.0),
        {"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"},
    ),
    Case(
        "Retry-After as a date, by ours",
        "openai",
        429,
        openai("", None, None),
        RateLimited(retry_after_seconds=20.0),
        {"Retry-After": "Sun, 15 Jun 2025 15:07:00 GMT"},
    ),
    Case(
        "a Retry-After that is nonsense",
        "openai",
        429,
        openai("", None, None),
        RateLimited(),
        {"Retry-After": "soon-ish 429"},
    ),
    Case(
        "no money",
        "openai",
        429,
        openai(QUOTA_MESSAGE, "insufficient_quota", "insufficient_quota"),
        QuotaSpent(never_resets=True, reason="insufficient_quota"),
    ),
    Case(
        "no credit, whose type is the broader one",
        "openai",
        429,
        openai("", "insufficient_quota", "credit_balance_exhausted"),
        QuotaSpent(never_resets=True, reason="credit_balance_exhausted"),
    ),
    Case(
        "a hard limit comes as 400",
        "openai",
        400,
        openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
        QuotaSpent(never_resets=True, reason="billing_hard_limit_reached"),
    ),
    Case(
        "an inactive account",
        "openai",
        429,
        openai("", "billing_not_active", "billing_not_active"),
        QuotaSpent(never_resets=True, reason="billing_not_active"),
    ),
    Case(
        "a request larger than the whole limit",
        "openai",
        429,
        openai(TOO_LARGE.format(61337), "tokens", "rate_limit_exceeded"),
        RequestFailed(status=429, reason="request_too_large"),
    ),
    Case(
        "one that only does not fit now",
        "openai",
        429,
        openai(TOO_LARGE.format(546), "tokens", "rate_limit_exceeded"),
        RateLimited(),
    ),
    Case(
        "a wrong key, with part of it in the message",
        "openai",
        401,
        openai("Incorrect API key provided: sk-SENT**NEL", "invalid_request_error", "invalid_api_key"),
        Rejected(reason="invalid_api_key"),
    ),
    Case("a gateway's bare 401", "openai", 401, "Unauthorized", Rejected(reason="401")),
    Case(
        "a model the project may not use",
        "openai",
        403,
        openai("Project does not have access to model gpt-5", "invalid_request_error", "model_not_found"),
        QuotaSpent(never_resets=True, reason="model_not_found"),
    ),
    Case(
        "a country",
        "openai",
        403,
        openai("", "request_forbidden", "unsupported_country_region_territory"),
        RequestFailed(status=403, reason="unsupported_country_region_territory"),
    ),
    Case(
        "a prompt that is too long and mentions 429",
        "openai",
        400,
        openai(
            "maximum context length is 128000; line 429 quota", "invalid_request_error", "context_length_exceeded"
        ),
        RequestFailed(status=400, reason="context_length_exceeded"),
    ),
    Case("a server error", "openai", 500, openai("", "server_error", None), Overloaded()),
    Case(
        "overload",
        "openai",
        503,
        openai("The engine is currently overloaded", "server_error", "engine_overloaded"),
        Overloaded(retry_after_seconds=4.0),
        {"retry-after": "4"},
    ),
    Case(
        "the error object alone, as the SDK hands it on",
        "openai",
        429,
        {"message": QUOTA_MESSAGE, "type": "insufficient_quota", "param": None, "code": "insufficient_quota"},
        QuotaSpent(never_resets=True, reason="insufficient_quota"),
    ),
    Case(
        "a local server's text",
        "openai",
        404,
        {"error": "model 'llama-429' not found, quota 403"},
        RequestFailed(status=404, reason="404 without an error object"),
    ),
    Case(
        "a gateway's 402 with a number as code",
        "openai",
        402,
        {"error": {"code": 402, "message": "credits"}},
        QuotaSpent(never_resets=True, reason="402"),
    ),
    Case("a gateway's 502 page", "openai", 502, HTML, Overloaded()),
    Case("a timeout", "openai", 408, "", TransportFailed(reason="408")),
    Case("an error inside a stream", "openai", 200, openai("", "server_error", "server_error"), Overloaded()),
]

ANTHROPIC = [
    Case(
        "a throttle with all its headers",
        "anthropic",
        429,
        anthropic("rate_limit_error", "This request would exceed your organization's rate limit"),
        RateLimited(
            retry_after_seconds=17.0,
            limits=(
                LearnedLimit(what="requests", value=50, window_seconds=60.0, remaining=12, resets_in_seconds=20.0),
                LearnedLimit(what="tokens", value=40_000, window_seconds=60.0, remaining=0, resets_in_seconds=30.0),
            ),
        ),
        {
            "retry-after": "17",
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "12",
            "anthropic-ratelimit-requests-reset": "2025-06-15T15:07:00Z",
            "anthropic-ratelimit-tokens-limit": "40000",
            "anthropic-ratelimit-tokens-remaining": "0",
            "anthropic-ratelimit-tokens-reset": "2025-06-15T15:07:10Z",
        },
    ),
    Case("overload", "anthropic", 529, anthropic("overloaded_error", "Overloaded"), Overloaded()),
    Case("overload as 429", "anthropic", 429, anthropic("overloaded_error", "Overloaded"), Overloaded()),
    Case("529 from the edge", "anthropic", 529, HTML, Overloaded()),
    Case("overload inside a stream", "anthropic", None, anthropic("overloaded_error", "Overloaded"), Overloaded()),
    Case(
        "no credit comes as 400",
        "anthropic",
        400,
        anthropic(
            "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to"
        ),
        QuotaSpent(never_resets=True, reason="credit_balance_too_low"),
    ),
    Case(
        "a user's text about credit is a bad request",
        "anthropic",
        400,
        anthropic(
            "invalid_request_error", "messages.0: 'Your credit balance is too low to access the Anthropic API'"
        ),
        RequestFailed(status=400, reason="invalid_request_error"),
    ),
    Case(
        "a spend limit with its end",
        "anthropic",
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2025-07-01 at 00:00 UTC.",
        ),
        QuotaSpent(resets_in_seconds=1_751_328_000.0 - NOW, reason="spend_limit_reached"),
    ),
    Case(
        "a workspace's spend limit without an end",
        "anthropic",
        400,
        anthropic("invalid_request_error", "You have reached your specified workspace API usage limits."),
        QuotaSpent(never_resets=True, reason="spend_limit_reached"),
    ),
    Case(
        "the tier's monthly cap looks like a throttle",
        "anthropic",
        429,
        anthropic("rate_limit_error", "x", details={"error_code": "enforced_spend_limit_reached"}),
        QuotaSpent(resets_in_seconds=1_751_328_000.0 - NOW, reason="enforced_spend_limit_reached"),
    ),
    Case(
        "billing",
        "anthropic",
        402,
        anthropic("billing_error", "payment"),
        QuotaSpent(never_resets=True, reason="billing_error"),
    ),
    Case(
        "long context that the plan does not include",
        "anthropic",
        429,
        anthropic("rate_limit_error", "Extra usage is required for long context requests."),
        RequestFailed(status=429, reason="long_context_not_included"),
    ),
    Case(
        "a wrong key",
        "anthropic",
        401,
        anthropic("authentication_error", "invalid x-api-key"),
        Rejected(reason="authentication_error"),
    ),
    Case("no permission", "anthropic", 403, anthropic("permission_error", "no"), Rejected(reason="permission_error")),
    Case(
        "too many bytes",
        "anthropic",
        413,
        anthropic("request_too_large", "Request exceeds the maximum size"),
        RequestFailed(status=413, reason="request_too_large"),
    ),
    Case(
        "an unknown model",
        "anthropic",
        404,
        anthropic("not_found_error", "model: claude-429"),
        RequestFailed(status=404, reason="not_found_error"),
    ),
    Case("their fault", "anthropic", 500, anthropic("api_error", "Internal server error"), Overloaded()),
    Case("their timeout", "anthropic", 504, anthropic("timeout_error", "x"), Overloaded()),
    Case("bytes", "anthropic", 529, json.dumps(anthropic("overloaded_error", "x")).encode(), Overloaded()),
]

NO_REPLY = [
    Case("nothing came back", "google", None, None, TransportFailed(reason="no reply")),
    Case("an empty text came back", "anthropic", None, "", TransportFailed(reason="no reply")),
    Case("a number came back", "openai", 500, 429, Overloaded()),
    Case("deep brackets came back", "openai", 500, "[" * 100_000, Overloaded()),
    Case("null error", "openai", 500, {"error": None}, Overloaded()),
]

OPENROUTER_DAY = "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
OPENROUTER_RESET = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1750032000000"}
XAI_NO_CREDIT = (
    "Your team 7d4c1a90-2b3e-4f55-9c1d-0a6b8e2f4711 has either used all available credits or reached its monthly "
    "spending limit. To continue making API requests, please purchase more credits or raise your spending limit."
)
XAI_WRONG_KEY = "Incorrect API key provided: xa***NT. You can obtain an API key from https://console.x.ai."

MONEY = [
    Case(
        "prepaid credits are used up: money, though it looks like a rate",
        "google",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage "
            "your project and billing.",
        ),
        QuotaSpent(never_resets=True, reason="prepayment_credits_depleted"),
        source="https://ai.google.dev/gemini-api/docs/billing; seen: github.com/JeffOtano/roni/pull/125",
    ),
    Case(
        "the project's own spending cap",
        "google",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "Your project has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/spend",
        ),
        QuotaSpent(never_resets=True, reason="monthly_spending_cap"),
        source="https://ai.google.dev/gemini-api/docs/billing#project-spend-caps",
    ),
    Case(
        "free models for today, with the end in the body",
        "openai",
        429,
        {"error": {"message": OPENROUTER_DAY, "code": 429, "metadata": {"headers": OPENROUTER_RESET}}},
        QuotaSpent(resets_in_seconds=32_000.0, reason="free-models-per-day"),
        source="https://openrouter.ai/docs/api-reference/limits; seen: github.com/Gitlawb/openclaude/issues/936",
    ),
    Case(
        "free models for this minute",
        "openai",
        429,
        {"error": {"message": "Rate limit exceeded: free-models-per-min. ", "code": 429, "metadata": {}}},
        RateLimited(),
        source="https://openrouter.ai/docs/api-reference/limits",
    ),
    Case(
        "Azure's call volume, which comes back",
        "openai",
        403,
        {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 1.07:01:20."},
        QuotaSpent(resets_in_seconds=111_680.0, reason="out_of_call_volume"),
        source="https://learn.microsoft.com/azure/api-management/quota-policy (quota: 403 and its wait)",
    ),
]

WHOSE_FAULT = [
    Case(
        "a model that this account does not have, or nobody",
        "openai",
        404,
        openai(
            "The model `gpt-9` does not exist or you do not have access to it.",
            "invalid_request_error",
            "model_not_found",
        ),
        NotServed(status=404, reason="model_not_found"),
        source="https://platform.openai.com/docs/guides/error-codes",
    ),
    Case(
        "an organisation that is disabled",
        "anthropic",
        400,
        anthropic("invalid_request_error", "This organization has been disabled."),
        Rejected(reason="organization_disabled"),
        source="github.com/anthropics/claude-code/issues/19028",
    ),
    Case(
        "a prompt that talks of a disabled organisation",
        "anthropic",
        400,
        anthropic("invalid_request_error", "messages.0: This organization has been disabled."),
        RequestFailed(status=400, reason="invalid_request_error"),
    ),
    Case(
        "a request that is not let in",
        "anthropic",
        403,
        {"error": {"type": "forbidden", "message": "Request not allowed"}},
        NotServed(status=403, reason="forbidden"),
        source="https://docs.claude.com/en/docs/claude-code/troubleshooting (403 Forbidden after login)",
    ),
    Case(
        "a request that is not let in, by another name",
        "anthropic",
        403,
        anthropic("permission_error", "Request not allowed"),
        NotServed(status=403, reason="permission_error"),
        source="https://docs.claude.com/en/docs/claude-code/troubleshooting (403 Forbidden after login)",
    ),
    Case(
        "input that a moderation flagged",
        "openai",
        403,
        {
            "error": {
                "code": 403,
                "message": "openai/gpt-4o requires moderation. Your input was flagged.",
                "metadata": {"reasons": ["violence"], "flagged_input": "…", "provider_name": "OpenAI"},
            }
        },
        RequestFailed(status=403, reason="flagged_input"),
        source="https://openrouter.ai/docs/api-reference/errors (moderation errors)",
    ),
    Case(
        "input that a moderation flagged, without a word of who did",
        "openai",
        403,
        {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence"]}}},
        RequestFailed(status=403, reason="flagged_input"),
        source="https://openrouter.ai/docs/api-reference/errors (moderation errors)",
    ),
    Case(
        "a wrong key with a status of 400",
        "openai",
        400,
        {"code": "Client specified an invalid argument", "error": XAI_WRONG_KEY},
        Rejected(reason="invalid_api_key"),
        source="https://docs.x.ai/docs/key-information/debugging; github.com/i-am-bee/beeai-framework/issues/447",
    ),
    Case(
        "a team of xAI without credits: money, though it looks like a rate",
        "openai",
        429,
        {"code": "Some resource has been exhausted", "error": XAI_NO_CREDIT},
        QuotaSpent(never_resets=True, reason="no_credit"),
        source="seen: github.com/continuedev/continue/issues/10373, github.com/Anantys-oss/koan/issues/2412 (as 403)",
    ),
    Case(
        "a refusal that does not say whether the key or the request is to blame",
        "openai",
        403,
        {"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}},
        NotServed(status=403, reason="403"),
        source="https://openrouter.ai/docs/api-reference/errors (403)",
    ),
    Case(
        "no room in the flexible tier",
        "openai",
        498,
        openai("Flex tier capacity exceeded", "capacity_exceeded", None),
        Overloaded(),
        source="https://console.groq.com/docs/errors (498)",
    ),
    Case(
        "a conflict is tried again",
        "openai",
        409,
        openai("Try again", "conflict", None),
        TransportFailed(reason="conflict"),
        source="https://platform.openai.com/docs/guides/error-codes/python-library-error-types (ConflictError)",
    ),
    Case(
        "JSON after a byte-order mark",
        "openai",
        429,
        b"\xef\xbb\xbf" + json.dumps(openai("", "insufficient_quota", "insufficient_quota")).encode(),
        QuotaSpent(never_resets=True, reason="insufficient_quota"),
        source="RFC 8259, section 8.1",
    ),
    Case(
        "an error of OpenRouter inside a good reply",
        "openai",
        200,
        {"error": {"code": "502", "message": "Provider returned error", "metadata": {"provider_name": "x"}}},
        Overloaded(),
        source="https://openrouter.ai/docs/api-reference/errors",
    ),
]

MISTRAL_LIMIT = {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}
AZURE_LIMIT = "Requests to the ChatCompletions_Create Operation have exceeded token rate limit."
GROQ_LIMIT = "Rate limit reached for model `llama` in organization `org_x` on tokens per day (TPD): Limit 100000"
MISTRAL_ERRORS = "https://docs.mistral.ai/resources/error-glossary"
BEDROCK_ERRORS = "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"

OTHERS = [
    Case(
        "a limit whose error is the body itself",
        "mistral",
        429,
        MISTRAL_LIMIT,
        RateLimited(limits=(LearnedLimit(what="requests", value=60, window_seconds=60.0, remaining=0),)),
        headers={"x-ratelimit-limit-req-minute": "60", "x-ratelimit-remaining-req-minute": "0"},
        source=f"{MISTRAL_ERRORS}; seen: github.com/earendil-works/pi/issues/9815",
    ),
    Case(
        "a model that nobody knows",
        "mistral",
        400,
        {"object": "error", "message": "Invalid model: x", "type": "invalid_request_error", "code": "unknown_model"},
        NotServed(status=400, reason="unknown_model"),
        source=MISTRAL_ERRORS,
    ),
    Case(
        "a model beyond the subscription: the key is good for others",
        "mistral",
        403,
        {"object": "error", "message": "Forbidden", "type": "forbidden", "code": None},
        NotServed(status=403, reason="forbidden"),
        source=f"{MISTRAL_ERRORS} (403)",
    ),
    Case(
        "a day's tokens, with the wait in a header",
        "groq",
        429,
        {"error": {"message": GROQ_LIMIT, "type": "tokens", "code": "rate_limit_exceeded"}},
        RateLimited(
            retry_after_seconds=437.0,
            limits=(LearnedLimit(what="requests", value=14400, window_seconds=86400.0, remaining=14000),),
        ),
        headers={
            "retry-after": "437",
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14000",
        },
        source="https://console.groq.com/docs/rate-limits (requests are the day's, tokens the minute's)",
    ),
    Case(
        "no balance",
        "deepseek",
        402,
        openai("Insufficient Balance", "unknown_error", "invalid_request_error"),
        QuotaSpent(never_resets=True, reason="invalid_request_error"),
        source="https://api-docs.deepseek.com/quick_start/error_codes (402)",
    ),
    Case(
        "a busy server",
        "deepseek",
        503,
        openai("Server Overloaded", "server_error", None),
        Overloaded(),
        source="https://api-docs.deepseek.com/quick_start/error_codes (503)",
    ),
    Case(
        "a deployment that this resource does not have",
        "azure",
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}},
        NotServed(status=404, reason="DeploymentNotFound"),
        source="https://learn.microsoft.com/azure/ai-foundry/openai/how-to/troubleshoot",
    ),
    Case(
        "a limit with a number as its code",
        "azure",
        429,
        {"error": {"code": "429", "message": AZURE_LIMIT}},
        RateLimited(retry_after_seconds=6.0),
        headers={"retry-after": "6"},
        source="seen: github.com/icereed/paperless-gpt/issues/814",
    ),
    Case(
        "a wrong key",
        "azure",
        401,
        {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."}},
        Rejected(reason="401"),
        source="https://learn.microsoft.com/azure/ai-services/openai/reference",
    ),
    Case(
        "throttled, by AWS's own name",
        "bedrock",
        429,
        {"message": "Too many tokens, please wait before trying again."},
        RateLimited(),
        headers={"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"},
        source=BEDROCK_ERRORS,
    ),
    Case(
        "a model that this account was not given",
        "bedrock",
        403,
        {"message": "You don't have access to the model with the specified model ID."},
        NotServed(status=403, reason="AccessDeniedException"),
        headers={"x-amzn-errortype": "AccessDeniedException"},
        source=BEDROCK_ERRORS,
    ),
    Case(
        "a form that the account has not filled in",
        "bedrock",
        404,
        {"message": "Model use case details have not been submitted for this account."},
        NotServed(status=404, reason="FTUFormNotFilled"),
        headers={"x-amzn-errortype": "FTUFormNotFilled"},
        source=BEDROCK_ERRORS,
    ),
    Case(
        "a model that is loading",
        "bedrock",
        429,
        {"message": "The model is not ready yet."},
        Overloaded(),
        headers={"x-amzn-errortype": "ModelNotReadyException"},
        source=BEDROCK_ERRORS,
    ),
    Case(
        "a model that was not pulled",
        "ollama",
        404,
        {"error": {"message": "model 'x' not found", "type": "not_found_error", "code": None}},
        RequestFailed(status=404, reason="model not found: pull it with `ollama pull`"),
        source="https://docs.ollama.com/api/errors",
    ),
    Case(
        "a full queue",
        "ollama",
        503,
        {"error": "server busy, please try again. maximum pending requests exceeded"},
        Overloaded(),
        source="https://docs.ollama.com/faq (OLLAMA_MAX_QUEUE)",
    ),
    Case(
        "quota of a project, without details",
        "vertex",
        429,
        google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."),
        RateLimited(),
        source="https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429",
    ),
]

CASES = GEMINI + OPENAI + ANTHROPIC + MONEY + WHOSE_FAULT + OTHERS + NO_REPLY
