"""Provider replies as they really look, and what each one says."""

from __future__ import annotations

import pytest

from agentos.providers.classify import classify, limits_from_headers
from agentos.providers.evidence import LearnedLimit, Overloaded, QuotaSpent, RateLimited
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


MOMENTS = {
    "seconds since 1970": f"{NOW + 20:.0f}",
    "with a fraction": f"{NOW + 20:.3f}",
    "milliseconds since 1970": f"{(NOW + 20) * 1000:.0f}",
    "a date as the internet writes it": "2025-06-15T15:07:00Z",
    "a date as HTTP writes it": "Sun, 15 Jun 2025 15:07:00 GMT",
}


@pytest.mark.parametrize("text", MOMENTS.values(), ids=MOMENTS)
def test_a_wait_may_be_told_by_the_moment_of_its_end(text: str) -> None:
    headers = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}
    (limit,) = limits_from_headers("openai", {**headers, "x-ratelimit-reset-requests": text}, now=NOW)
    assert (limit.resets_in_seconds, limit.window_seconds) == (pytest.approx(20.0), 60.0)
    for asked in ({"retry-after": text}, {"x-ratelimit-reset-requests": text}):
        evidence = classify("openai", 429, asked, openai("", "requests", "rate_limit_exceeded"), now=NOW)
        assert isinstance(evidence, RateLimited)
        assert evidence.retry_after_seconds == pytest.approx(20.0)


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1.0), ("6m0s", 360.0), ("0.7", 0.7), ("2", 2.0)])
def test_every_header_of_a_wait_is_read_alike(text: str, seconds: float) -> None:
    for asked in ({"retry-after": text}, {"x-ratelimit-reset-requests": text}):
        evidence = classify("openai", 429, asked, openai("", "requests", "rate_limit_exceeded"), now=NOW)
        assert evidence == RateLimited(retry_after_seconds=seconds)


@pytest.mark.parametrize("text", ["99999999", "999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "-5", "nan", "inf"])
def test_a_wait_that_no_provider_means_is_none(text: str) -> None:
    for status in (429, 503):
        evidence = classify("openai", status, {"retry-after": text}, openai("", None, None), now=NOW)
        assert isinstance(evidence, RateLimited | Overloaded)
        assert evidence.retry_after_seconds is None


def test_without_a_stated_wait_one_request_is_waited_for_and_not_all() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
    }
    evidence = classify("openai", 429, headers, openai("", "requests", "rate_limit_exceeded"), now=NOW)
    assert isinstance(evidence, RateLimited)
    assert evidence.retry_after_seconds == pytest.approx(6.0)


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
