"""vLLM, served by the user: without a key unless it was started with `--api-key`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentos.providers.compatible import compatible

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile


def profiles() -> Callable[[str], ModelProfile | None]:
    from pydantic_ai.providers.vllm import VLLMProvider  # noqa: PLC0415

    return VLLMProvider.model_profile


PROVIDER = compatible(
    "vllm",
    profiles,
    rank=21,
    needs_key=False,
    base_url="http://127.0.0.1:8000/v1",
    quota_owner="vLLM server",
)
