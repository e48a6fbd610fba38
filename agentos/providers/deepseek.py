"""DeepSeek. It has no rate limits of its own: a busy server holds a request, and says so with 503 in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentos.providers.compatible import compatible

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile


def profiles() -> Callable[[str], ModelProfile | None]:
    from pydantic_ai.providers.deepseek import DeepSeekProvider  # noqa: PLC0415

    return DeepSeekProvider.model_profile


PROVIDER = compatible(
    "deepseek",
    profiles,
    rank=12,
    base_url="https://api.deepseek.com",
    check_model="deepseek-chat",
    quota_owner="DeepSeek account",
)
