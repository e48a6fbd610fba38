"""xAI: Grok."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, Rejected
from agentos.providers.replies import ErrorReply

WRONG_KEY = re.compile(r"Incorrect(?: |%20)API(?: |%20)key(?: |%20)provided\b")
"""With a status of 400 and no code of its own."""


def is_own_error(error: Mapping[str, Any]) -> bool:
    """Users also reach it as `openai` with another address. OpenAI says the same with a code."""
    message = error.get("message")
    return isinstance(message, str) and WRONG_KEY.match(message) is not None and not error.get("code")


def read_error(reply: ErrorReply) -> Evidence:
    if reply.status == 400 and WRONG_KEY.match(reply.message):
        return Rejected(reason="invalid_api_key")
    return openai.read_error(reply)


PROVIDER = compatible(
    "xai",
    rank=15,
    base_url="https://api.x.ai/v1",
    check_model="grok-4-fast-non-reasoning",
    quota_owner="xAI team",
    price_list="x-ai",
    read_error=read_error,
    read_limits=openai.read_limits,
    is_own_error=is_own_error,
)
