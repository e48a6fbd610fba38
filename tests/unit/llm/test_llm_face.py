"""`agentos.llm` as a program sees it: what it exports, what it loads, how it is configured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos import llm
from agentos.llm.settings import LlmSettings, ProviderSettings


@pytest.fixture(autouse=True)
def _default_settings() -> Iterator[None]:
    llm.configure(LlmSettings())
    yield
    llm.configure(LlmSettings())


def test_the_environment_wins_over_configured_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    llm.configure(LlmSettings(providers={"google": ProviderSettings(base_url="http://file")}))
    assert llm.provider_settings("google").base_url == "http://file"
    assert llm.provider_settings("openai").base_url is None

    monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", "http://environment")
    assert llm.provider_settings("google").base_url == "http://environment"


def test_configured_settings_are_used(tmp_path: Path) -> None:
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
