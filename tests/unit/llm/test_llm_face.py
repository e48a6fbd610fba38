"""`agentos.llm` as a program sees it: what it exports, what it loads, how it is configured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos import llm
from agentos.llm.settings import base_url, use_base_urls


@pytest.fixture(autouse=True)
def _default_settings() -> Iterator[None]:
    yield
    use_base_urls({})


def test_the_environment_wins_over_configured_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    use_base_urls({"google": "http://file"})
    assert base_url("google") == "http://file"
    assert base_url("openai") is None

    monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", "http://environment")
    assert base_url("google") == "http://environment"


def test_the_default_model_and_the_recordings_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_MODEL", "offline:a")
    monkeypatch.setenv("AGENTOS_RECORD_DIR", str(tmp_path))

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
