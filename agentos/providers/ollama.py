"""Ollama on the user's own machine: no key, no limits, models as they were pulled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, RequestFailed
from agentos.providers.replies import ErrorReply

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile


def read_error(reply: ErrorReply) -> Evidence:
    """A model that is not there was not pulled: no other key has it."""
    if reply.status == 404:
        return RequestFailed(status=404, reason="model not found: pull it with `ollama pull`")
    return openai.read_error(reply)


def profiles() -> Callable[[str], ModelProfile | None]:
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

    return OllamaProvider.model_profile


PROVIDER = compatible(
    "ollama",
    profiles,
    rank=20,
    needs_key=False,
    base_url="http://127.0.0.1:11434/v1",
    quota_owner="Ollama server",
    read_error=read_error,
)
