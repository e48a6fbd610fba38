"""OpenRouter: models of many providers behind one address, and their errors inside its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, RequestFailed
from agentos.providers.replies import ErrorReply, whole_number

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

_MODERATION = frozenset({"flagged_input", "reasons"})
FREE_MODELS = re.compile(r"Rate limit exceeded: free-models-per-(day|min)\b")


def is_own_error(error: Mapping[str, Any]) -> bool:
    """Users also reach it as `openai` with another address."""
    message = error.get("message")
    is_about_free_models = isinstance(message, str) and FREE_MODELS.match(message) is not None
    return is_about_free_models or not {*_MODERATION, "provider_name", "raw"}.isdisjoint(_metadata(error))


def read_error(reply: ErrorReply) -> Evidence:
    metadata = _metadata(reply.error)
    if reply.status == 403 and not _MODERATION.isdisjoint(metadata):
        return RequestFailed(status=403, reason="flagged_input")
    if reply.status == 429 and (free := FREE_MODELS.match(reply.message)):
        wait_seconds = _reset(reply, metadata)
        if free[1] == "day":
            return QuotaSpent(resets_in_seconds=wait_seconds, reason="free-models-per-day")
        return RateLimited(retry_after_seconds=wait_seconds)
    return openai.read_error(reply)


def _metadata(error: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = error.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _reset(reply: ErrorReply, metadata: Mapping[str, Any]) -> float | None:
    """It puts the headers of a limit into the body, the limit's end in milliseconds since 1970."""
    headers = metadata.get("headers")
    at = whole_number(headers.get("X-RateLimit-Reset")) if isinstance(headers, Mapping) else None
    return None if at is None or reply.now is None else max(at / 1000 - reply.now, 0.0)


def profiles() -> Callable[[str], ModelProfile | None]:
    from pydantic_ai.providers.openrouter import OpenRouterProvider  # noqa: PLC0415

    return OpenRouterProvider.model_profile


PROVIDER = compatible(
    "openrouter",
    profiles,
    rank=10,
    base_url="https://openrouter.ai/api/v1",
    check_model="openai/gpt-4.1-nano",
    quota_owner="OpenRouter account",
    read_error=read_error,
    is_own_error=is_own_error,
)
