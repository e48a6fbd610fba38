"""Together AI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.providers.compatible import compatible
from agentos.providers.evidence import LearnedLimit
from agentos.providers.replies import limits_by_name

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

_LIMITS = {"requests": "x-ratelimit-{}", "tokens": "x-tokenlimit-{}"}


def read_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    """By its documentation these are per second."""
    return tuple(replace(limit, window_seconds=1.0) for limit in limits_by_name(headers, _LIMITS, now))


def profiles() -> Callable[[str], ModelProfile | None]:
    from pydantic_ai.providers.together import TogetherProvider  # noqa: PLC0415

    return TogetherProvider.model_profile


PROVIDER = compatible(
    "together",
    profiles,
    rank=14,
    base_url="https://api.together.xyz/v1",
    check_model="meta-llama/Llama-3.2-3B-Instruct-Turbo",
    quota_owner="Together organisation",
    read_limits=read_limits,
)
