"""Mistral, by the OpenAI-compatible part of its API. Its errors are the body itself, with numbers as codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, LearnedLimit, NotServed
from agentos.providers.replies import ErrorReply, limits_by_name

if TYPE_CHECKING:
    from pydantic_ai.profiles.openai import OpenAIModelProfile

_ABSENT = ("unknown_model", "invalid_model")
_LIMITS = {"requests": "x-ratelimit-{}-req-minute", "tokens": "x-ratelimit-{}-tokens-minute"}


def read_error(reply: ErrorReply) -> Evidence:
    absent = next((name for name in _ABSENT if name in (reply.token("code"), reply.token("type"))), "")
    if absent or reply.status == 403:
        # By its documentation a 403 is about a model that the subscription does not have, not about the key.
        return NotServed(status=reply.status, reason=absent or reply.token("type") or "403")
    return openai.read_error(reply)


def read_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    return limits_by_name(headers, _LIMITS, now)


def profiles() -> OpenAIModelProfile:
    """It refuses the newer name of the bound of output tokens."""
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415

    return OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)


PROVIDER = compatible(
    "mistral",
    profiles,
    rank=13,
    base_url="https://api.mistral.ai/v1",
    check_model="mistral-small-latest",
    quota_owner="Mistral workspace",
    read_error=read_error,
    read_limits=read_limits,
)
