"""Provider replies as they really look, and what each one says."""

from __future__ import annotations

import pytest

from agentos.providers.classify import classify, limits_from_headers
from agentos.providers.evidence import LearnedLimit, QuotaSpent, RateLimited
from fakes.replies import CASES, MONEY, NOW, OTHERS, WHOSE_FAULT, Case, anthropic, openai


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.provider}: {case.name}")
def test_a_reply_is_read_by_its_structure(case: Case) -> None:
    assert classify(case.provider, case.status, case.headers, case.body, now=NOW) == case.expected


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 40


def test_every_case_of_money_fault_and_further_providers_says_where_it_is_documented() -> None:
    invented = {"a prompt that talks of a disabled organisation"}
    assert {case.name for case in MONEY + WHOSE_FAULT + OTHERS if not case.source} == invented


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.provider}: {case.name}")
def test_no_reason_holds_any_part_of_a_key(case: Case) -> None:
    assert "SENT" not in repr(classify(case.provider, case.status, case.headers, case.body, now=NOW))


def test_absolute_dates_are_left_alone_without_a_clock() -> None:
    headers = {"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}
    assert classify("openai", 429, headers, openai("", None, None)) == RateLimited()
    month = anthropic("rate_limit_error", "x", details={"error_code": "enforced_spend_limit_reached"})
    assert classify("anthropic", 429, {}, month) == QuotaSpent(
        never_resets=True, reason="enforced_spend_limit_reached"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6m0s", 360.0), ("1s", 1.0), ("120ms", 0.12), ("1h2m3.5s", 3723.5), ("1d", 86_400.0), ("7.5", 7.5)],
)
def test_reset_headers_are_durations(text: str, seconds: float) -> None:
    headers = {
        "x-ratelimit-limit-requests": "200",
        "x-ratelimit-remaining-requests": "199",
        "x-ratelimit-reset-requests": text,
    }
    (limit,) = limits_from_headers("openai", headers)
    assert limit.resets_in_seconds == pytest.approx(seconds)
    assert limit.window_seconds == (86_400.0 if seconds > 61 else 60.0)


def test_a_reset_of_minutes_makes_no_day_of_a_minutes_limit() -> None:
    """OpenAI's own example of its headers."""
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert [limit.window_seconds for limit in limits_from_headers("openai", headers)] == [60.0, 60.0]


def test_groq_counts_requests_by_the_day() -> None:
    headers = {
        "x-ratelimit-limit-requests": "14400",
        "x-ratelimit-remaining-requests": "14370",
        "x-ratelimit-reset-requests": "2m59.56s",
    }
    (limit,) = limits_from_headers("openai", headers)
    assert limit.window_seconds == 86_400.0


def test_input_and_output_tokens_of_anthropic_are_kept_apart() -> None:
    headers = {
        f"anthropic-ratelimit-{what}-limit": value
        for what, value in {"input-tokens": "20000", "output-tokens": "4000", "tokens": "4000"}.items()
    }
    limits = limits_from_headers("anthropic", headers)
    assert {limit.what: limit.value for limit in limits} == {"input_tokens": 20_000, "output_tokens": 4_000}


def test_a_success_of_anthropic_teaches_input_tokens_when_it_has_no_total() -> None:
    headers = {
        "Anthropic-Ratelimit-Input-Tokens-Limit": "20000",
        "Anthropic-Ratelimit-Input-Tokens-Remaining": "19000",
        "Anthropic-Ratelimit-Input-Tokens-Reset": "2025-06-15T15:06:43Z",
    }
    assert limits_from_headers("anthropic", headers, now=NOW) == (
        LearnedLimit(what="input_tokens", value=20_000, window_seconds=60.0, remaining=19_000, resets_in_seconds=3.0),
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-limit-requests": "many"},
        {"x-ratelimit-limit-requests": "0"},
        {"x-ratelimit-limit-tokens": "-5"},
    ],
)
def test_headers_without_a_usable_limit_teach_nothing(headers: dict[str, str]) -> None:
    assert limits_from_headers("openai", headers) == ()


def test_google_sends_no_limit_headers() -> None:
    assert limits_from_headers("google", {"x-ratelimit-limit-requests": "5"}) == ()
