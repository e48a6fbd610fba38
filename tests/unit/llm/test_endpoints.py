"""Keys leave this machine only for places that the user has named."""

from __future__ import annotations

import pytest

from agentos.errors import UsageError
from agentos.llm.endpoints import is_on_this_machine, refuse_unconfirmed, unconfirmed_urls

GATEWAY = "https://gateway.example/v1"


@pytest.mark.parametrize(
    "url",
    ["http://localhost:11434/v1", "http://127.0.0.1/v1", "http://127.8.9.1:80", "http://[::1]:8080/v1"],
)
def test_places_on_this_machine(url: str) -> None:
    assert is_on_this_machine(url)
    refuse_unconfirmed({"openai": url}, ["openai"])


@pytest.mark.parametrize(
    "url",
    [
        GATEWAY,
        "http://localhost.example/v1",
        "http://127.0.0.1.example/v1",
        "http://localhost@gateway.example/v1",
        "http://gateway.example\\@localhost/v1",
        "http://10.0.0.7/v1",
        "http://0.0.0.0/v1",
        "not a url",
        "",
    ],
)
def test_places_elsewhere_get_no_key_because_a_project_says_so(url: str) -> None:
    assert not is_on_this_machine(url)
    with pytest.raises(UsageError, match="AGENTOS_PROVIDERS__OPENAI__BASE_URL="):
        refuse_unconfirmed({"openai": url}, ["openai"])


def test_a_provider_without_keys_gives_nothing_away() -> None:
    unconfirmed = unconfirmed_urls({"openai": GATEWAY}, {})
    assert unconfirmed == {"openai": GATEWAY}
    refuse_unconfirmed(unconfirmed, ["google"])


def test_what_the_environment_names_as_well_is_confirmed() -> None:
    urls = {"openai": GATEWAY, "google": "https://other.example"}
    environ = {"AGENTOS_PROVIDERS__OPENAI__BASE_URL": GATEWAY, "AGENTOS_PROVIDERS__GOOGLE__BASE_URL": "https://mine"}
    assert unconfirmed_urls(urls, environ) == {"google": "https://other.example"}
