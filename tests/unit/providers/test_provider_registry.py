"""The providers as they are found: their order, their defaults, and what the docs say of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agentos.providers.provider import Provider
from agentos.providers.registry import default_model, key_variables, providers

ROOT = Path(__file__).parents[3]


def test_a_provider_is_a_module_of_its_name_in_order_of_rank() -> None:
    own = ["google", "anthropic", "openai"]
    compatible = ["openrouter", "groq", "deepseek", "mistral", "together", "xai"]
    assert list(providers()) == [*own, *compatible, "ollama", "vllm", "azure", "vertex", "bedrock"]


@pytest.mark.parametrize(
    ("with_keys", "model"),
    [
        ({"openai", "anthropic", "google"}, "google:gemini-3.1-pro-preview"),
        ({"openai", "anthropic"}, "anthropic:claude-sonnet-5"),
        ({"openai"}, "openai:gpt-5.1"),
        ({"cli"}, ""),
        (set(), ""),
    ],
)
def test_the_default_model_is_of_the_first_provider_with_a_key(with_keys: set[str], model: str) -> None:
    assert default_model(with_keys) == model


def test_no_two_providers_read_the_same_variable() -> None:
    assert len(key_variables()) == sum(len(provider.key_variables) for provider in providers().values())


def test_every_extra_can_be_installed_alone_and_with_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    for provider in providers().values():
        assert provider.extra in extras
        assert provider.extra in re.split(r"[\[\],]", everything)


def test_the_docs_have_a_line_for_every_provider() -> None:
    page = (ROOT / "docs" / "howto" / "keys.md").read_text()
    assert [line for line in page.splitlines() if "`.[" in line and line.startswith("| ")] == [
        _line(provider) for provider in providers().values()
    ]


def _line(provider: Provider) -> str:
    variables = ", ".join(f"`{variable}`" for variable in provider.key_variables)
    cells = (
        provider.name,
        f"`.[{provider.extra}]`",
        variables,
        f"`{provider.default_model}`" if provider.default_model else "",
        f"`{provider.check_model}`" if provider.check_model else "",
        provider.quota_owner,
    )
    return f"| {' | '.join(cells)} |"
