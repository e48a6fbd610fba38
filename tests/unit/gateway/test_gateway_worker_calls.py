"""Where the gateway of a run lets the keys of a worker's calls go."""

from __future__ import annotations

import pytest

from agentos.gateway.worker_calls import home_of
from agentos.providers.provider import base_url_variable
from agentos.providers.registry import providers

WITH_A_HOME = [each.name for each in providers().values() if each.needs_key and not each.needs_base_url]


@pytest.mark.parametrize("provider", WITH_A_HOME)
def test_every_provider_that_has_an_address_for_everybody_is_known_by_it(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(base_url_variable(provider), raising=False)
    assert home_of(provider).startswith("https://")


@pytest.mark.parametrize("provider", ["azure", "openai"])
def test_an_address_of_the_users_own_is_the_only_one(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(base_url_variable(provider), "https://mine.example/v1")
    assert home_of(provider) == "https://mine.example/v1"
