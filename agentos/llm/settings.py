"""Settings of model calls: the default model, endpoints, offline latency, recordings. The one place that reads them.

A program hands them over with `configure`; what it leaves out comes from `AGENTOS_*` variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentos.errors import UsageError
from agentos.providers.provider import base_url_variable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """How one provider is reached."""

    base_url: str | None = None
    """None means the provider's own endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """None, or a provider left out, means: ask the environment."""

    default_model: str | None = None
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    offline_latency_seconds: float | None = None
    recorded_dir: Path | None = None
    record_dir: Path | None = None


_configured = LlmSettings()


def configure(settings: LlmSettings) -> None:
    """Use `settings` in this process from now on; what they leave open still comes from the environment."""
    global _configured
    _configured = settings


def default_model() -> str | None:
    return _configured.default_model or os.environ.get("AGENTOS_MODEL") or None


def provider_settings(provider: str) -> ProviderSettings:
    """How to reach a provider: the environment wins over what was configured, as for every setting."""
    base_url = os.environ.get(base_url_variable(provider))
    if base_url:
        return ProviderSettings(base_url=base_url)
    return _configured.providers.get(provider, ProviderSettings())


def offline_latency_seconds() -> float:
    if _configured.offline_latency_seconds is not None:
        return _configured.offline_latency_seconds
    text = os.environ.get("AGENTOS_OFFLINE_LATENCY_SECONDS", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"AGENTOS_OFFLINE_LATENCY_SECONDS is '{text}': give a number of seconds, 0 or more.")
    return seconds


def recorded_dir() -> Path | None:
    """Where the model `recorded` reads its answers."""
    return _configured.recorded_dir or _path_variable("AGENTOS_RECORDED_DIR")


def record_dir() -> Path | None:
    """Where answers of live models are saved, if they are."""
    return _configured.record_dir or _path_variable("AGENTOS_RECORD_DIR")


def _path_variable(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text).expanduser() if text else None
