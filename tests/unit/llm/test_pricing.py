"""What calls cost, before and after."""

from __future__ import annotations

import pytest

from agentos.llm import pricing
from agentos.llm.types import ModelName, add_usage
from agentos.providers.evidence import Usage


def test_known_models_have_a_price_and_unknown_ones_none() -> None:
    assert pricing.cost_usd(ModelName.parse("openai:gpt-4o-mini"), 1_000_000, 0) == pytest.approx(0.15)
    assert pricing.cost_usd(ModelName.parse("openai:my-local-model"), 1_000_000, 0) is None
    assert pricing.cost_usd(ModelName.parse("cli:claude"), 1_000_000, 0) is None
    assert pricing.cost_usd(ModelName.parse("offline"), 1_000_000, 0) == 0
    assert pricing.cost_usd(ModelName.parse("google:gemini-2.5-flash"), 1000, 1000) == pytest.approx(0.0028)


def test_token_estimates_grow_with_the_text_and_are_never_zero() -> None:
    assert pricing.estimate_tokens("") == 1
    assert pricing.estimate_tokens("a" * 400) == 100


def test_the_cost_of_a_sum_is_unknown_when_a_part_is() -> None:
    known, unknown = Usage(input_tokens=1, output_tokens=2, cost_usd=0.5), Usage(input_tokens=3, output_tokens=4)

    assert add_usage(known, known) == Usage(input_tokens=2, output_tokens=4, cost_usd=1.0)
    assert add_usage(known, unknown) == Usage(input_tokens=4, output_tokens=6, cost_usd=None)
