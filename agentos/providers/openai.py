"""OpenAI: the chat completions API, which many other providers speak as well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentos.providers.evidence import (
    Evidence,
    LearnedLimit,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    RequestFailed,
)
from agentos.providers.provider import Endpoint, ModelLookup, Provider, SampleReply
from agentos.providers.replies import (
    OVERLOAD_CODES,
    ErrorReply,
    by_status,
    limits_by_name,
    wait_seconds,
)

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

MONEY_CODES = frozenset(
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
TOO_LARGE = re.compile(r"Request too large for .*?: Limit (\d+), Requested (\d+)\.", re.DOTALL)


def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    return OpenAIProvider(api_key=placeholder_key, base_url=endpoint.base_url, http_client=http)


def build_model(name: str, client: Any) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415

    return OpenAIChatModel(name, provider=client)


def read_error(reply: ErrorReply) -> Evidence:
    code, kind = reply.token("code"), reply.token("type")
    money = next((name for name in (code, kind) if name in MONEY_CODES), "")
    if money:
        return QuotaSpent(never_resets=True, reason=money)
    if reply.status == 403 and code == "model_not_found":
        # The project may not use this model; the key is good for others.
        return QuotaSpent(never_resets=True, reason=code)
    if reply.status == 404 and code == "model_not_found":
        return NotServed(status=404, reason=code)
    if reply.status == 403 and code == "unsupported_country_region_territory":
        return RequestFailed(status=403, reason=code)
    if OVERLOAD_CODES & {code, kind}:
        return Overloaded(retry_after_seconds=reply.retry_after_seconds)
    if reply.status == 429:
        too_large = TOO_LARGE.match(reply.message)
        if too_large and int(too_large[2]) > int(too_large[1]):
            return RequestFailed(status=429, reason="request_too_large")
        limits = read_limits(reply.headers, reply.now)
        return RateLimited(retry_after_seconds=_delay(reply, kind, limits), limits=limits)
    return by_status(reply, code or kind)


def _delay(reply: ErrorReply, kind: str, limits: Iterable[LearnedLimit]) -> float | None:
    """The stated wait, else by the reset of whichever limit was hit: when all of it is back."""
    delay = reply.retry_after_seconds
    if delay is None and kind in {"requests", "tokens"}:
        delay = wait_seconds(reply.headers.get(f"x-ratelimit-reset-{kind}", ""), reply.now)
        requests = next((limit.value for limit in limits if limit.what == kind == "requests"), 1)
        # One request is back sooner; how many tokens a call waits for nobody knows here.
        return None if delay is None else delay / requests
    return delay


def read_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    names = {"requests": "x-ratelimit-{}-requests", "tokens": "x-ratelimit-{}-tokens"}
    return limits_by_name(headers, names, now)


def answer_problem(document: Mapping[str, Any]) -> str | Mapping[str, Any]:
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return "an answer without choices"
    if isinstance(first.get("error"), Mapping):
        return dict(first["error"])
    if first.get("finish_reason") == "error":
        return "an answer that stopped before its end"
    return "" if isinstance(first.get("message"), Mapping) else "an answer without a message"


def ends_stream(event: object) -> bool:
    """`[DONE]`, or, from servers that do not send it, the piece that says why the answer is over."""
    if not isinstance(event, Mapping):
        return event == "[DONE]"
    choices = event.get("choices")
    reasons = [each.get("finish_reason") for each in choices or () if isinstance(each, Mapping)]
    return any(reason and reason != "error" for reason in reasons)


SAMPLE_ANSWER = SampleReply(
    {
        "id": "sample",
        "object": "chat.completion",
        "created": 0,
        "model": "sample",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
)
SAMPLE_RATE_LIMIT = SampleReply(
    {
        "error": {
            "message": "Simulated by AGENTOS_SIMULATE_429.",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    },
    headers={"retry-after": "1"},
)

PROVIDER = Provider(
    name="openai",
    rank=3,
    extra="openai",
    sdk_module="openai",
    key_variables=("OPENAI_API_KEY",),
    default_model="gpt-5.1",
    check_model="gpt-4.1-nano",
    quota_owner="OpenAI organisation",
    model_lookup=ModelLookup("https://api.openai.com/v1", "/models/{model}", {"authorization": "Bearer {key}"}),
    connect=connect,
    build_model=build_model,
    read_error=read_error,
    read_limits=read_limits,
    answer_problem=answer_problem,
    ends_stream=ends_stream,
    sample_answer=SAMPLE_ANSWER,
    sample_rate_limit=SAMPLE_RATE_LIMIT,
)
