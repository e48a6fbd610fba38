"""What calls cost, before and after."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.llm import pricing
from agentos.llm.types import add_usage
from agentos.providers.evidence import Usage
from agentos.providers.model_name import ModelName
from agentos.providers.registry import default_models


def test_known_models_have_a_price_and_unknown_ones_none() -> None:
    assert pricing.cost_usd(ModelName.parse("openai:gpt-4o-mini"), 1_000_000, 0) == pytest.approx(0.15)
    assert pricing.cost_usd(ModelName.parse("openai:my-local-model"), 1_000_000, 0) is None
    assert pricing.cost_usd(ModelName.parse("cli:claude"), 1_000_000, 0) is None
    assert pricing.cost_usd(ModelName.parse("offline"), 1_000_000, 0) == 0
    assert pricing.cost_usd(ModelName.parse("google:gemini-2.5-flash"), 1000, 1000) == pytest.approx(0.0028)


def test_own_prices_win_and_the_rest_may_have_one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_PRICES__MODELS", "openai:my-local-model 1/2, openai:gpt-4o-mini 0/0")
    monkeypatch.setenv("AGENTOS_PRICES__UNPRICED", "3/4")
    assert pricing.cost_usd(ModelName.parse("openai:my-local-model"), 1_000_000, 500_000) == 2.0
    assert pricing.cost_usd(ModelName.parse("openai:gpt-4o-mini"), 1_000_000, 0) == 0
    assert pricing.cost_usd(ModelName.parse("openai:another"), 1_000_000, 1_000_000) == 7.0
    assert pricing.cost_usd(ModelName.parse("google:gemini-2.5-flash"), 1000, 1000) == pytest.approx(0.0028)
    assert pricing.estimated_cost_usd(ModelName.parse("cli:claude"), 1, 1) == 0


@pytest.mark.parametrize("text", ["2", "2/x", "-1/2", "inf/2", "/", "nan/1"])
def test_what_is_no_price_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="dollars per million tokens"):
        pricing.own_prices([f"google:mine {text}"], "")
    with pytest.raises(UsageError, match="write it like 2/12"):
        pricing.own_prices([], text)


def test_every_default_model_has_a_price() -> None:
    assert pricing.without_price([*default_models(), "offline", "cli:claude"], pricing.OwnPrices()) == []
    assert pricing.without_price(["google:mine"], pricing.OwnPrices()) == ["google:mine"]


def test_every_model_that_the_documentation_names_has_a_price() -> None:
    root = Path(__file__).parents[3]
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("agentos/cli/*.py")]
    names = re.compile(r"\b(?:google|openai|anthropic):(?:gemini|gpt|claude)-[a-z0-9.-]*[a-z0-9]")
    named = {name for page in pages for name in names.findall(page.read_text(encoding="utf-8"))}
    assert named
    assert pricing.without_price(sorted(named), pricing.OwnPrices()) == []


def test_token_estimates_grow_with_the_text_and_are_never_zero() -> None:
    assert pricing.estimate_tokens("") == 1
    assert pricing.estimate_tokens("a" * 400) == 100


def test_the_cost_of_a_sum_is_unknown_when_a_part_is() -> None:
    known, unknown = Usage(input_tokens=1, output_tokens=2, cost_usd=0.5), Usage(input_tokens=3, output_tokens=4)

    assert add_usage(known, known) == Usage(input_tokens=2, output_tokens=4, cost_usd=1.0)
    assert add_usage(known, unknown) == Usage(input_tokens=4, output_tokens=6, cost_usd=None)
