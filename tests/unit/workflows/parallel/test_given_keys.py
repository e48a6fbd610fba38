"""Whose keys a caller's pool has, and what a run gives back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.events import KeyCoolingDown
from agentos.settings import Models, Settings
from agentos.workflows.parallel import CredentialCoordinator
from agentos.workflows.parallel.given_keys import provider_of_keys, taken_from
from agentos.workflows.registry import WORKFLOWS, Workflow

LLD, OWN_GRAPH = WORKFLOWS["lld"], Workflow("mine", "flow.py:graph")


@pytest.fixture(autouse=True)
def _no_keys_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def settings(drafter: str = "", reviewer: str = "") -> Settings:
    return Settings(models=Models(drafter=drafter, reviewer=reviewer))


@pytest.mark.parametrize(
    ("chosen", "provider"),
    [
        (settings("google:gemini-3-pro"), "google"),
        (settings("anthropic:claude", "offline"), "anthropic"),
        (settings("offline", "offline"), ""),
    ],
)
def test_the_keys_are_for_the_provider_of_the_models(chosen: Settings, provider: str) -> None:
    assert provider_of_keys(LLD, chosen, {}) == provider


def test_no_provider_is_shown_keys_that_may_be_anothers() -> None:
    with pytest.raises(UsageError, match="the models of anthropic and google: choose models of one"):
        provider_of_keys(LLD, settings("google:gemini-3-pro", "anthropic:claude"), {})
    with pytest.raises(UsageError, match=r"name a model as models\.drafter"):
        provider_of_keys(LLD, settings(), {})


def test_a_graph_of_ones_own_says_it_by_its_model() -> None:
    assert provider_of_keys(OWN_GRAPH, settings(), {"AGENTOS_MODEL": "openai:gpt"}) == "openai"
    assert provider_of_keys(OWN_GRAPH, settings(), {}) == ""


def test_free_keys_are_taken_and_come_back_with_the_limits_they_met() -> None:
    pool = CredentialCoordinator(["one", "two", "held"], on_event=lambda _event: None)
    while (held := pool.acquire()) != "held":
        pool.release(str(held))
    with taken_from(pool, "google") as keys:
        assert pool.get_available_count() == 0
        taken = keys.credentials()
        assert sorted(taken.secrets.values()) == ["one", "two"]
        assert {spec.provider for spec in taken.specs} == {"google"}
        limited = next(name for name, secret in taken.secrets.items() if secret == "two")
        keys.note(KeyCoolingDown(key_number=1, key_name=limited, seconds=600.0))
    assert pool.get_available_count() == 1
    assert pool.acquire(timeout=0.0) == "one"


def test_a_pool_without_keys_is_refused() -> None:
    with (
        pytest.raises(UsageError, match="has no keys"),
        taken_from(CredentialCoordinator([], on_event=lambda _event: None), "google"),
    ):
        pass
