"""The pure parts of model calls: retries, prices, minimal values, settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentos import llm
from agentos.llm import pricing
from agentos.llm import settings as llm_settings
from agentos.llm.retries import GiveUp, History, RetryPolicy, TryAgain, after_failure, backoff_seconds
from agentos.llm.schema_example import example_value
from agentos.llm.settings import LlmSettings, ProviderSettings
from agentos.llm.types import Attempted, add_usage
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    TransportFailed,
    Usage,
)

POLICY = RetryPolicy()


@pytest.mark.parametrize("evidence", [RateLimited(retry_after_seconds=60), QuotaSpent(), Rejected()])
def test_what_belongs_to_keys_is_asked_of_the_pool_again_at_once(evidence: Evidence) -> None:
    history = History(overloads=3)

    assert after_failure(Attempted(evidence=evidence), history, POLICY, 0.5) == TryAgain(0.0, history)


def test_overload_waits_as_long_as_the_provider_asked() -> None:
    step = after_failure(Attempted(evidence=Overloaded(retry_after_seconds=17)), History(), POLICY, 1.0)

    assert step == TryAgain(17, History(overloads=1))


@pytest.mark.parametrize("evidence", [RequestFailed(status=400), Abandoned()])
def test_a_wrong_request_is_never_tried_again(evidence: Evidence) -> None:
    assert after_failure(Attempted(evidence=evidence), History(), POLICY, 0.5) == GiveUp(1)


@given(
    failures=st.lists(st.sampled_from(["overload", "reset", "timeout"]), min_size=20, max_size=20),
    jitter=st.floats(0, 1),
)
@hypothesis_settings(deadline=None, max_examples=50)
def test_failures_of_the_provider_end_after_a_bounded_number(failures: list[str], jitter: float) -> None:
    history, tried = History(), 0
    for failure in failures:
        tried += 1
        evidence = Overloaded() if failure == "overload" else TransportFailed()
        step = after_failure(Attempted(evidence=evidence, timed_out=failure == "timeout"), history, POLICY, jitter)
        if isinstance(step, GiveUp):
            break
        assert 0 < step.delay_seconds <= POLICY.cap_seconds
        history = step.history
    assert tried <= POLICY.overload_attempts + POLICY.transport_attempts - 1


def test_backoff_doubles_up_to_the_cap_with_half_of_it_random() -> None:
    assert [backoff_seconds(n, POLICY, 1.0) for n in (1, 2, 3, 100)] == [0.5, 1.0, 2.0, 30.0]
    assert backoff_seconds(3, POLICY, 0.0) == 1.0


def test_known_models_have_a_price_and_unknown_ones_none() -> None:
    million = {"input_tokens": 1_000_000, "output_tokens": 0}

    assert pricing.cost_usd("openai:gpt-4o-mini", **million) == pytest.approx(0.15)
    assert pricing.cost_usd("openai:my-local-model", **million) is None
    assert pricing.cost_usd("cli:claude", **million) is None
    assert pricing.cost_usd("offline", **million) == 0
    assert pricing.estimate_cost("google:gemini-2.5-flash", 1000, 1000) == pytest.approx(0.0028)


def test_token_estimates_grow_with_the_text_and_are_never_zero() -> None:
    assert pricing.estimate_tokens("") == 1
    assert pricing.estimate_tokens("a" * 400) == 100


def test_the_cost_of_a_sum_is_unknown_when_a_part_is() -> None:
    known, unknown = Usage(input_tokens=1, output_tokens=2, cost_usd=0.5), Usage(input_tokens=3, output_tokens=4)

    assert add_usage(known, known) == Usage(input_tokens=2, output_tokens=4, cost_usd=1.0)
    assert add_usage(known, unknown) == Usage(input_tokens=4, output_tokens=6, cost_usd=None)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "maxLength": 3}, "off"),
        ({"type": "string", "minLength": 9}, "offline.."),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "integer", "minimum": 4}, 4),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 5, "multipleOf": 4}, 8),
        ({"type": "boolean"}, False),
        ({"type": ["null", "integer"]}, 0),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}, {"a": "offline"}),
        ({"properties": {"a": {"const": 1}}, "required": ["a"]}, {"a": 1}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            ["offline 1", "offline 2"],
        ),
        ({"allOf": [{"type": "number"}]}, 0.0),
        ({"default": 7, "type": "integer"}, 7),
        ({}, None),
    ],
)
def test_example_values_fit_their_schema(schema: dict[str, Any], value: Any) -> None:
    assert example_value(schema) == value


def test_a_schema_that_contains_itself_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
        "required": ["next"],
    }

    value = example_value({"$ref": "#/$defs/Node", "$defs": {"Node": node}})

    depth = 0
    while value["next"] is not None:
        value, depth = value["next"], depth + 1
    assert 0 < depth < 20


def test_the_environment_wins_over_configured_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_settings, "_configured", LlmSettings())
    llm.configure(LlmSettings(providers={"google": ProviderSettings(base_url="http://file")}))
    assert llm.provider_settings("google").base_url == "http://file"
    assert llm.provider_settings("openai").base_url is None

    monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", "http://environment")
    assert llm.provider_settings("google").base_url == "http://environment"


def test_configured_settings_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(llm_settings, "_configured", LlmSettings())
    llm.configure(LlmSettings(default_model="offline:a", offline_latency_seconds=0, record_dir=tmp_path))

    assert llm.generate("hi").model == "offline:a"
    assert list(tmp_path.rglob("*.json"))


def test_every_exported_name_exists() -> None:
    assert all(getattr(llm, name) is not None for name in llm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        llm.nothing  # noqa: B018


def test_importing_the_package_loads_no_sdk() -> None:
    code = (
        "import sys, agentos.llm; agentos.llm.generate; "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'pydantic_ai', 'httpx2', 'asyncio')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
